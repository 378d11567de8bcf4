"""Offers signals to a condition: what each one changes, and whether the wait is over."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from flowfabric.model.conditions import MAX_COUNT, Condition, Node, is_sentinel

SATISFIED: Final = "resume_condition_satisfied"
APPENDED: Final = "appended_to_waitpoint"
NO_OP: Final = "no_op"
DUPLICATE: Final = "appended_to_waitpoint_duplicate"
NOT_IN_CONDITION: Final = "signal_ignored_not_in_condition"
MATCHER_FAILED: Final = "signal_ignored_matcher_failed"

# How far a signal gets in a tree; the best that any node says is what it achieved.
_DEAF, _REFUSED, _REPEATED, _COUNTED = 0, 1, 2, 3
_EFFECTS: Final = (NOT_IN_CONDITION, MATCHER_FAILED, DUPLICATE, APPENDED)


class Offer(Struct, frozen=True):
    """What a condition needs to know about a signal."""

    ref: str
    """Names the signal; never empty, never used for two signals."""
    waitpoint_key: str
    waitpoint_id: str
    name: str
    source_type: str = ""
    source_identity: str = ""


def offer(condition: Condition, signal: Offer) -> tuple[Condition, str]:
    """Let a signal count; gives the new condition and the effect. A satisfied condition changes no more."""
    if satisfied(condition):
        return condition, NO_OP
    changed, effect = _offer_tree(condition, signal) if condition.tree else _offer_list(condition, signal)
    return changed, SATISFIED if effect == APPENDED and satisfied(changed) else effect


def satisfied(condition: Condition) -> bool:
    """Whether the wait is over."""
    if condition.tree:
        return _holds(condition.tree[0])
    filled = len(satisfiers(condition))
    return filled > 0 and filled >= (len(condition.slots) if condition.mode == "all" else condition.minimum)


def satisfiers(condition: Condition) -> tuple[str, ...]:
    """Name the signals that counted: by slot in a list, by time of acceptance in a tree, each once."""
    return tuple(ref for ref in condition.slots if ref)


def _offer_list(condition: Condition, signal: Offer) -> tuple[Condition, str]:
    elsewhere = condition.waitpoint_key not in {"", signal.waitpoint_key}
    if elsewhere or is_sentinel(signal.name) or signal.ref in condition.slots:
        return condition, NO_OP
    for index, name in enumerate(condition.names):
        if not condition.slots[index] and name in {"", signal.name}:
            slots = (*condition.slots[:index], signal.ref, *condition.slots[index + 1 :])
            return replace(condition, slots=slots), APPENDED
    return condition, NO_OP


def _offer_tree(condition: Condition, signal: Offer) -> tuple[Condition, str]:
    root, reached = _feed(condition.tree[0], signal)
    if reached < _COUNTED:
        return condition, _EFFECTS[reached]
    return replace(condition, tree=(root,), slots=(*condition.slots, signal.ref)), APPENDED


def _feed(node: Node, signal: Offer) -> tuple[Node, int]:
    """Give a node its share of a signal, and say how far the signal got."""
    if node.kind == "AllOf":
        fed = [_feed(member, signal) for member in node.members]
        members = tuple(member for member, _ in fed)
        return replace(node, members=members), max(reached for _, reached in fed)
    if signal.waitpoint_key not in node.waitpoint_keys:
        return node, _DEAF
    if node.matcher not in {"", signal.name} or is_sentinel(signal.name):
        return node, _REFUSED
    token = _token(node, signal)
    room = MAX_COUNT if node.kind == "Count" else 1
    if token in node.satisfiers or len(node.satisfiers) >= room:
        return node, _REPEATED
    return replace(node, satisfiers=(*node.satisfiers, token)), _COUNTED


def _token(node: Node, signal: Offer) -> str:
    if node.count_kind == "DistinctSources":
        return f"{signal.source_type}\0{signal.source_identity}"
    if node.count_kind == "DistinctWaitpoints":
        return signal.waitpoint_id
    return signal.ref


def _holds(node: Node) -> bool:
    if node.kind == "AllOf":
        return all(_holds(member) for member in node.members)
    return node.kind != "NeverBySignal" and len(node.satisfiers) >= node.n
