"""What a suspended execution waits for: how it is stored, and how it is made from what a caller says.

A list has one slot per expected signal, all on one waitpoint. A tree nests `AllOf`, `Count` and `Single`
nodes over any number of waitpoints; each counting node keeps its own satisfiers. `condition_json` reads
trees, `evaluation` feeds signals to both forms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from flowfabric.model import checks
from flowfabric.model.errors import invalid
from flowfabric.model.limits import SIGNAL_LIST_LENGTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

OPERATOR_ONLY: Final = "__operator_only__"
TIMEOUT_ONLY: Final = "__timeout_only__"

MAX_SLOTS: Final = 256
MAX_COUNT: Final = SIGNAL_LIST_LENGTH
"""Largest number of satisfiers that a node asks for, and keeps."""

COUNT_KINDS: Final = {
    "signals": "DistinctSignals",
    "sources": "DistinctSources",
    "waitpoints": "DistinctWaitpoints",
}
"""The short names of what `Count` counts, and the names in trees."""


class Node(Struct, frozen=True, array_like=True, gc=False):
    """One node of a tree."""

    kind: str
    """`AllOf`, `Count`, `Single`, or `NeverBySignal`, which no signal satisfies."""
    path: str = ""
    """Where it stands: empty at the root, then `members[0]`, `members[0].members[2]`."""
    waitpoint_keys: tuple[str, ...] = ()
    matcher: str = ""
    """The signal name that it accepts; empty accepts every name."""
    n: int = 0
    count_kind: str = ""
    members: tuple[Node, ...] = ()
    satisfiers: tuple[str, ...] = ()
    """What it has counted so far, in order, each once: signals, sources or waitpoints by `count_kind`."""

    def check(self) -> None:
        """Check the numbers of this node and of those below it."""
        checks.integer("condition.n", self.n, 0, MAX_COUNT)
        for member in self.members:
            member.check()


class Condition(Struct, frozen=True, array_like=True, gc=False):
    """What must happen, and what has happened so far."""

    version: int = 1
    form: str = "list"
    """`list` or `tree`."""
    names: tuple[str, ...] = ()
    """List: the signal name of each slot; empty takes any."""
    mode: str = ""
    """List: `any`, `all` or `count`."""
    minimum: int = 0
    slots: tuple[str, ...] = ()
    """List: the signal in each slot, empty while open. Tree: the signals that counted, in order."""
    tree: tuple[Node, ...] = ()
    """Tree: its root."""
    operator_override: bool = True
    """Whether an operator may resume before the condition holds."""
    waitpoint_key: str = ""
    """List: the waitpoint it listens on; empty is the only one there is."""

    def check(self) -> None:
        """Check its numbers; the functions below check the rest while they build it."""
        checks.integer("condition.version", self.version, 1, 1)
        checks.integer("condition.minimum", self.minimum, 0, MAX_COUNT)
        for node in self.tree:
            node.check()


def is_sentinel(signal_name: str) -> bool:
    """Whether a name is reserved for conditions that no signal satisfies."""
    return signal_name in {OPERATOR_ONLY, TIMEOUT_ONLY}


def single(waitpoint_key: str, name: str = "") -> Condition:
    """Wait for the first signal of that name, or of any name."""
    return list_condition((name,), "any", waitpoint_key=waitpoint_key)


def operator_only() -> Condition:
    """Wait for an operator; no signal resumes."""
    return list_condition((OPERATOR_ONLY,), "all")


def timeout_only() -> Condition:
    """Wait for the timeout; no signal resumes."""
    return list_condition((TIMEOUT_ONLY,), "all")


def list_condition(
    names: Sequence[str], mode: str = "any", minimum: int = 1, waitpoint_key: str = ""
) -> Condition:
    """Wait for signals by name: one of them, all of them, or `minimum` of them. No names: any signals."""
    if mode not in ("any", "all", "count"):
        raise invalid("mode", "must be any, all or count")
    needed = minimum if mode == "count" else 1
    if len(names) > MAX_SLOTS:
        raise invalid("signals", f"takes at most {MAX_SLOTS} names")
    if not 1 <= needed <= (len(names) or MAX_SLOTS):
        raise invalid("count", f"must be from 1 to the number of names, or without names to {MAX_SLOTS}")
    slots = tuple(names) or ("",) * needed
    needed = len(slots) if mode == "all" else needed
    return Condition(
        names=slots, mode=mode, minimum=needed, slots=("",) * len(slots), waitpoint_key=waitpoint_key
    )


def friendly_condition(
    names: Iterable[Any], mode: str, count: int, distinct: str, waitpoint_keys: Sequence[str]
) -> Condition:
    """Build the condition of a plain `suspend`; `count` 0 and an empty `distinct` are not given."""
    wanted = tuple(_expected(f"signals[{index}]", name) for index, name in enumerate(names))
    if mode == "count":
        checks.integer("count", count, 1, MAX_COUNT)
    elif count or distinct:
        raise invalid("count" if count else "distinct", "goes with mode count only")
    if distinct:
        return _distinct(wanted, count, distinct, waitpoint_keys)
    if len(waitpoint_keys) > 1:
        raise invalid("waitpoint_key", "several waitpoints need distinct, or a condition that names them")
    if wanted and count > len(wanted):
        raise invalid(
            "count", "is more than there are signal names; repeat a name, or set distinct to signals"
        )
    return list_condition(wanted, mode, count, waitpoint_keys[0] if waitpoint_keys else "")


def referenced_keys(condition: Condition) -> tuple[str, ...]:
    """Name the waitpoints that the condition listens on, in order of first appearance."""
    keys = [condition.waitpoint_key] if condition.waitpoint_key else []
    for node in condition.tree:
        _collect_keys(node, keys)
    return tuple(dict.fromkeys(keys))


def required_signal_names(condition: Condition) -> tuple[str, ...]:
    """Name the signals that a list waits for; empty when any will do, or when names alone do not tell."""
    if any(not name or is_sentinel(name) for name in condition.names):
        return ()
    return condition.names


def needs_timeout(condition: Condition) -> bool:
    """Whether nothing but a timeout ends it, so that there must be one."""
    return condition.names == (TIMEOUT_ONLY,)


def _expected(field: str, name: Any) -> str:
    checked = checks.name(field, name)
    if is_sentinel(checked):
        raise invalid(field, "is a reserved name")
    return checked


def _distinct(names: tuple[str, ...], count: int, distinct: str, waitpoint_keys: Sequence[str]) -> Condition:
    if distinct not in COUNT_KINDS:
        raise invalid("distinct", "must be signals, sources or waitpoints")
    if len(names) > 1:
        raise invalid("signals", "takes at most one name together with distinct")
    keys = tuple(dict.fromkeys(waitpoint_keys))
    if not keys:
        raise invalid("waitpoint_key", "is needed to count signals on it")
    if distinct == "waitpoints" and count > len(keys):
        raise invalid("count", f"is more than there are waitpoints ({len(keys)})")
    root = Node("Count", "", keys, "".join(names), count, COUNT_KINDS[distinct])
    return Condition(form="tree", tree=(root,))


def _collect_keys(node: Node, keys: list[str]) -> None:
    keys.extend(node.waitpoint_keys)
    for member in node.members:
        _collect_keys(member, keys)
