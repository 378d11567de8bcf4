"""Saying where two answers, or two dumps, differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from flowfabric.model.errors import FlowFabricError
from flowfabric.storage.base import Dump

ABSENT = "nothing"


class Disagreement(AssertionError):
    """Something that must hold does not. `kind` names it in few words, so that a shorter sequence can be told apart."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}\n{text}")
        self.kind = kind


def facts(reply: Any) -> Any:
    """What must be equal of a reply: an error is its code, details and field."""
    if isinstance(reply, FlowFabricError):
        return ("refused", reply.code, reply.details, reply.field)
    return reply


def same_replies(name: str, first: Any, second: Any, stores: tuple[str, str]) -> None:
    """Refuse two replies to one command that differ."""
    if facts(first) != facts(second):
        text = f"{stores[0]} and {stores[1]} differ at {difference(facts(first), facts(second))}"
        raise Disagreement(f"replies differ: {name}", text)


def same_dumps(first: Dump, second: Dump, stores: tuple[str, str]) -> None:
    """Refuse two stores that hold different things."""
    for part in ("records", "indexes", "history", "frames", "counts"):
        one, two = getattr(first, part), getattr(second, part)
        if part == "records":
            for kind in sorted({*one, *two}):
                _same(f"records of {kind}", one.get(kind, {}), two.get(kind, {}), stores)
        else:
            _same(part, one, two, stores)


def _same(what: str, one: Any, two: Any, stores: tuple[str, str]) -> None:
    if one != two:
        raise Disagreement(
            f"dumps differ: {what}", f"{stores[0]} and {stores[1]} differ at {difference(one, two)}"
        )


def difference(one: Any, two: Any, path: str = "") -> str:
    """Name the first place where two values differ."""
    if type(one) is type(two):
        for place, left, right in _parts(one, two):
            if left != right:
                return difference(left, right, f"{path}{place}")
    return f"{path or 'the answer'}: {one!r} != {two!r}"


def _parts(one: Any, two: Any) -> Iterator[tuple[str, Any, Any]]:
    """Take two values of one type apart, part by part."""
    if isinstance(one, dict):
        for key in sorted({*one, *two}, key=repr):
            yield f"[{key!r}]", one.get(key, ABSENT), two.get(key, ABSENT)
    elif isinstance(one, Struct):
        for name in one.__struct_fields__:
            yield f".{name}", getattr(one, name), getattr(two, name)
    elif isinstance(one, tuple | list) and len(one) == len(two):
        for place, (left, right) in enumerate(zip(one, two, strict=True)):
            yield f"[{place}]", left, right
