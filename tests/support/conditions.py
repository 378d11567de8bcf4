"""Conditions as a client sends them."""

from typing import Any

import pytest

from flowfabric.model.condition_json import parse_condition
from flowfabric.model.errors import InvalidInput


def single_node(key: str = "k0", name: str | None = None) -> dict[str, Any]:
    matcher = {"kind": "ByName", "name": name} if name is not None else {"kind": "Wildcard"}
    return {"kind": "Single", "waitpoint_key": key, "matcher": matcher}


def count_node(
    n: int, kind: str = "DistinctSignals", keys: tuple[str, ...] = ("k0",), name: str = ""
) -> dict[str, Any]:
    matcher = {"kind": "ByName", "name": name} if name else None
    return {"kind": "Count", "n": n, "count_kind": kind, "matcher": matcher, "waitpoints": list(keys)}


def all_of(*members: Any) -> dict[str, Any]:
    return {"kind": "AllOf", "members": list(members)}


def refusal(value: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        parse_condition(value)
    assert caught.value.field == "condition"
    return caught.value.text
