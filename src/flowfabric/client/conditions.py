"""Conditions of suspensions, written as the server reads them."""

from __future__ import annotations

from typing import Any, Final

from flowfabric.model.conditions import OPERATOR_ONLY, TIMEOUT_ONLY, Condition, Node
from flowfabric.model.errors import invalid

_ALONE: Final = {(OPERATOR_ONLY,): "OperatorOnly", (TIMEOUT_ONLY,): "TimeoutOnly"}


def condition_fields(condition: Condition) -> dict[str, Any]:
    """Return the fields of a suspension that say what it waits for."""
    override = {} if condition.operator_override else {"allow_operator_override": False}
    if condition.form == "tree":
        if len(condition.tree) != 1:
            raise invalid("condition", "a tree has one root")
        return {"condition": {"v": 1, "composite": True, "tree": _node(condition.tree[0])}, **override}
    if condition.names in _ALONE:
        return {"condition": {"kind": _ALONE[condition.names]}, **override}
    counted = {"count": condition.minimum} if condition.mode == "count" else {}
    key = {"waitpoint_key": condition.waitpoint_key} if condition.waitpoint_key else {}
    return {"signals": condition.names, "mode": condition.mode, **counted, **key, **override}


def _node(node: Node) -> dict[str, Any]:
    matcher = {"kind": "ByName", "name": node.matcher} if node.matcher else None
    if node.kind == "AllOf":
        return {"kind": "AllOf", "members": [_node(member) for member in node.members]}
    if node.kind == "Count":
        return {
            "kind": "Count", "n": node.n, "count_kind": node.count_kind, "matcher": matcher,
            "waitpoints": list(node.waitpoint_keys),
        }  # fmt: skip
    if node.kind == "Single":
        return {"kind": "Single", "waitpoint_key": "".join(node.waitpoint_keys[:1]), "matcher": matcher}
    return {"kind": node.kind}
