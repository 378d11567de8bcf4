from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it comes without types
import msgspec
import openapi_spec_validator
import pytest

from flowfabric.server.http.openapi import document
from flowfabric.wire import routes
from flowfabric.wire.rights import Right
from support.server import Api

pytestmark = pytest.mark.one_store


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_every_route_is_described() -> None:
    described = {(method, path) for path, method, _ in operations()}
    assert described == {(route.method, route.path) for route in routes()}


def test_it_is_valid() -> None:
    openapi_spec_validator.validate(document())


def test_every_reference_resolves_and_every_schema_is_used() -> None:
    found = set(references(document()))
    for reference in found:
        place: Any = document()
        for part in reference.removeprefix("#/").split("/"):
            place = place[part]
    used = {reference.rpartition("/")[2] for reference in found}
    assert set(document()["components"]["schemas"]) <= used


def test_operations_have_names_of_their_own_and_say_who_may_call_them() -> None:
    names = Counter(operation["operationId"] for _, _, operation in operations())
    assert max(names.values()) == 1
    needs = {(route.method, route.path): route.right for route in routes()}
    for path, method, operation in operations():
        assert operation["summary"]
        assert operation["tags"]
        assert bool(operation["security"]) == (needs[method, path] is not Right.NOTHING)
        parameters = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
        assert parameters == set(re.findall(r"\{(\w+)\}", path))


def test_every_json_answer_has_a_shape() -> None:
    for path, method, operation in operations():
        for status, answer in operation["responses"].items():
            schema = answer.get("content", {}).get("application/json", {}).get("schema")
            assert schema != {}, (method, path, status)


def test_examples_are_what_the_routes_take_and_give() -> None:
    declared = {(route.method, route.path): route for route in routes()}
    for route in routes():
        assert (route.example is None) == (route.body is None), route.name
        if route.body is not None:
            msgspec.json.decode(msgspec.json.encode(route.example), type=route.body)
    for path, method, operation in operations():
        shown = set()
        for status, answer in operation["responses"].items():
            for content in answer.get("content", {}).values():
                if "example" in content:
                    schema = content["schema"] | {"components": document()["components"]}
                    jsonschema.validate(content["example"], schema)
                    shown.add(int(status))
        assert shown == set(declared[method, path].examples)


async def test_it_is_served_to_everybody(api: Api) -> None:
    reply = await api.get("/openapi.json")
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert reply.json == document()


async def test_the_page_loads_nothing_from_elsewhere(api: Api) -> None:
    reply = await api.get("/docs")
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    text = reply.raw.decode()
    assert not re.search(r"https?://", text)
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!#)""", text)
    assert not re.search(r"@import|url\(|//[a-z]", text)
    assert re.findall(r"""fetch\("([^"]+)"\)""", text) == ["openapi.json"]
    assert ".innerHTML" not in text
