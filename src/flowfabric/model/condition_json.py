"""Reads a condition from decoded JSON, and refuses shapes that could never hold or never be stored."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from flowfabric.model import checks
from flowfabric.model.conditions import (
    COUNT_KINDS,
    MAX_COUNT,
    OPERATOR_ONLY,
    Condition,
    Node,
    is_sentinel,
    operator_only,
    referenced_keys,
    single,
    timeout_only,
)
from flowfabric.model.errors import InvalidInput, invalid
from flowfabric.model.limits import MAX_CONDITION_DEPTH, MAX_PENDING_WAITPOINTS

MAX_NODES: Final = 256

_KINDS: Final = ("AllOf", "Count", "Single", "OperatorOnly", "TimeoutOnly", "NeverBySignal")


def parse_condition(value: Any) -> Condition:
    """Read a condition from decoded JSON: a node, or a node wrapped with its version."""
    root, override = value, True
    if isinstance(value, dict) and "tree" in value:
        _fields(value, "", "v", "composite", "tree", "allow_operator_override")
        if value.get("v", 1) != 1 or value.get("composite", True) is not True:
            raise invalid("condition", "is of a version that is not known here")
        root, override = value["tree"], _override(value)
    if isinstance(root, dict) and "allow_operator_override" in root:
        override = _override(root) and override
        root = {key: root[key] for key in root if key != "allow_operator_override"}
    condition = _root(root)
    if condition.names == (OPERATOR_ONLY,) and not override:
        raise invalid("condition", "only an operator ends it: allow_operator_override must not be false")
    return replace(condition, operator_override=override)


def _root(value: Any) -> Condition:
    kind = _kind(value, "")
    root = _node(value, "", 1, [])
    if root.kind == "NeverBySignal":
        return timeout_only() if kind == "TimeoutOnly" else operator_only()
    if root.kind == "Single":
        return single(root.waitpoint_keys[0], root.matcher)
    condition = Condition(form="tree", tree=(root,))
    if len(referenced_keys(condition)) > MAX_PENDING_WAITPOINTS:
        raise invalid("condition", f"names more than {MAX_PENDING_WAITPOINTS} waitpoints")
    return condition


def _node(value: Any, path: str, depth: int, seen: list[str]) -> Node:
    """Read one node; `seen` holds the paths of all nodes so far."""
    kind = _kind(value, path)
    seen.append(path)
    if len(seen) > MAX_NODES:
        raise invalid("condition", f"has more than {MAX_NODES} nodes")
    if kind in ("AllOf", "Count") and depth > MAX_CONDITION_DEPTH:
        raise invalid("condition", f"depth {depth} exceeds cap {MAX_CONDITION_DEPTH} at path {path}")
    if kind == "AllOf":
        return _all_of(value, path, depth, seen)
    if kind == "Count":
        return _count(value, path)
    if kind == "Single":
        _fields(value, path, "kind", "path", "waitpoint_key", "matcher")
        key = _text(value.get("waitpoint_key"), "waitpoint_key", path)
        return Node("Single", path, (key,), _matcher(value, path), n=1)
    _fields(value, path, "kind", "path")
    return Node("NeverBySignal", path)


def _all_of(value: dict[str, Any], path: str, depth: int, seen: list[str]) -> Node:
    _fields(value, path, "kind", "path", "members")
    members = value.get("members", [])
    if not isinstance(members, list):
        raise _wrong("members must be a list", path)
    if not members:
        raise _wrong("allof_empty_members", path)
    prefix = f"{path}." if path else ""
    nodes = [_node(member, f"{prefix}members[{i}]", depth + 1, seen) for i, member in enumerate(members)]
    return Node("AllOf", path, members=tuple(nodes))


def _count(value: dict[str, Any], path: str) -> Node:
    _fields(value, path, "kind", "path", "n", "count_kind", "matcher", "waitpoints")
    kind, n, keys = value.get("count_kind"), value.get("n"), value.get("waitpoints", [])
    if kind not in COUNT_KINDS.values():
        raise _wrong(f"count_kind must be one of {', '.join(COUNT_KINDS.values())}", path)
    matcher = _matcher(value, path)
    if n == 0:
        raise _wrong("count_n_zero", path)
    if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= MAX_COUNT:
        raise _wrong(f"n must be an integer from 1 to {MAX_COUNT}", path)
    if not isinstance(keys, list):
        raise _wrong("waitpoints must be a list", path)
    if not keys:
        raise _wrong("count_waitpoints_empty", path)
    distinct = tuple(dict.fromkeys(_text(key, "waitpoint key", path) for key in keys))
    if kind == "DistinctWaitpoints" and n > len(distinct):
        raise _wrong(f"count_exceeds_waitpoint_set: {n} of {len(distinct)} waitpoints", path)
    return Node("Count", path, distinct, matcher, n, str(kind))


def _matcher(value: dict[str, Any], path: str) -> str:
    matcher = value.get("matcher")
    if matcher is None or matcher == {"kind": "Wildcard"}:
        return ""
    if (
        not isinstance(matcher, dict)
        or matcher.get("kind") != "ByName"
        or not matcher.keys() <= {"kind", "name"}
    ):
        raise _wrong("matcher must be null, ByName with a name, or Wildcard", path)
    if matcher.get("name") == "":
        raise _wrong("resume_condition: empty signal name", path)
    name = _text(matcher.get("name"), "signal name", path)
    if is_sentinel(name):
        raise _wrong("signal name is reserved", path)
    return name


def _kind(value: Any, path: str) -> str:
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind not in _KINDS:
        raise _wrong(f"must be an object whose kind is one of {', '.join(_KINDS)}", path)
    return str(kind)


def _fields(value: dict[str, Any], path: str, *known: str) -> None:
    """Refuse unknown fields: a misspelt matcher would accept every signal."""
    if not value.keys() <= set(known):
        raise _wrong(f"has unknown fields; known are {', '.join(known)}", path)


def _override(value: dict[str, Any]) -> bool:
    override = value.get("allow_operator_override", True)
    if not isinstance(override, bool):
        raise invalid("condition", "allow_operator_override must be true or false")
    return override


def _text(value: Any, what: str, path: str) -> str:
    try:
        return checks.name("condition", value)
    except InvalidInput as error:
        raise _wrong(f"{what} {error.text}", path) from error


def _wrong(text: str, path: str) -> InvalidInput:
    return invalid("condition", f"{text} at path {path}")
