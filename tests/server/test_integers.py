"""Integers that no store keeps exactly are refused by name, in every body that has one."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from msgspec import inspect

from flowfabric.wire import routes
from flowfabric.wire.route import Route
from support.server import Api

UNUSED = {"now"}
"""The caller's clock of the older routes, which nothing reads."""
APART = {"POST /v1/workers/{worker_id}/renew": {"fences"}, "POST /v1/submit/batch": {"items"}}
"""Lists whose items are answered one by one."""
PATH = {
    "{id}": "%7Bfp:7%7D:7c9e6679-7425-40de-944b-e07fc1f90ae7",
    "{waitpoint_id}": "0b8f2a52-5f0e-4c41-9a7d-2f1f6f1f9a10",
}


def name_of(route: Route) -> str:
    return f"{route.method} {route.path}"


def integers(form: Any) -> Iterator[tuple[str, ...]]:
    """Yield the path to every integer of a body."""
    shape = inspect.type_info(form)
    yield from _inside(shape, ())


def _inside(shape: inspect.Type, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(shape, inspect.IntType):
        yield path
    elif isinstance(shape, inspect.UnionType):
        for each in shape.types:
            if not isinstance(each, inspect.ListType | inspect.VarTupleType):
                yield from _inside(each, path)
    elif isinstance(shape, inspect.StructType):
        for field in shape.fields:
            yield from _inside(field.type, (*path, field.encode_name))
    elif isinstance(shape, inspect.VarTupleType | inspect.ListType) and not isinstance(
        shape.item_type, inspect.IntType
    ):
        yield from _inside(shape.item_type, (*path, "0"))


def with_number(body: Any, path: tuple[str, ...], number: int) -> Any:
    changed = copy.deepcopy(body)
    place = changed
    for part in path[:-1]:
        place = place[int(part)] if part.isdigit() else place.setdefault(part, {})
    place[path[-1]] = number
    return changed


def cases() -> list[tuple[Route, tuple[str, ...]]]:
    return [
        (route, path)
        for route in routes()
        if route.body is not None
        for path in integers(route.body)
        if path[-1] not in UNUSED and path[0] not in APART.get(name_of(route), ())
    ]


async def test_an_integer_beyond_2_to_the_53_is_refused_by_name(api: Api) -> None:
    assert len(cases()) > 40
    for route, path in cases():
        url = route.path.replace("{worker_id}", "w1").replace("{lane}", "l")
        for name, value in PATH.items():
            url = url.replace(name, value)
        for number in (2**53, 2**64, -(2**53), 2**200):
            body = with_number(route.example, path, number)
            answer = await api.call(route.method, url, body)
            where = (name_of(route), path, number, answer.json)
            assert answer.status == 422, where
            assert path[-1] in answer.json["field"], where


async def test_an_integer_of_a_query_beyond_2_to_the_53_is_refused_by_name(api: Api) -> None:
    asked = [
        (route, path[0]) for route in routes() if route.query is not None for path in integers(route.query)
    ]
    assert len(asked) > 5
    for route, name in asked:
        url = route.path.replace("{worker_id}", "w1").replace("{lane}", "l").replace("{idx}", "0")
        for part, value in PATH.items():
            url = url.replace(part, value)
        for number in (2**53, 2**64):
            answer = await api.call(route.method, f"{url}?{name}={number}")
            assert answer.status == 400, (name_of(route), name, number, answer)
            assert name in answer.json["error"], (name_of(route), name, number, answer)
