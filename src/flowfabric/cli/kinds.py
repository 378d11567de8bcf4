"""`ff kinds`: what workers have published of their tasks; and the check of arguments before they are submitted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from flowfabric.cli.desk import Desk, command
from flowfabric.cli.screen import printable
from flowfabric.model.contracts.kinds import GetKind, ListKinds
from flowfabric.model.errors import NotFound, invalid
from flowfabric.model.records import Kind
from flowfabric.model.times import since
from flowfabric.server.shapes import kind as shown

FOR_ALL = "all"


def add(commands: Any) -> None:
    """Describe the command."""
    parser = command(commands, "kinds", "list the tasks that workers have published, or show one", kinds)
    parser.add_argument("kind", nargs="?", default="", metavar="KIND", help="show this one")
    parser.add_argument(
        "--namespace", default=None, help="as this namespace sees them: its own, and those for all"
    )
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="how many at most (default: 100)")


async def kinds(desk: Desk) -> int:
    """List kinds, or show one."""
    given = desk.given
    if given.kind:
        _show(desk, await desk.store.read(GetKind(kind=given.kind, namespace=given.namespace or "")))
        return 0
    found = [kind async for kind in _some(desk, given.namespace, given.limit)]
    if desk.json:
        desk.screen.json([shown(kind) for kind in found])
        return 0
    now = desk.now()
    desk.screen.table(
        ("kind", "namespace", "lane", "arguments", "published", "by", "description"),
        [
            (
                kind.kind, kind.namespace or FOR_ALL, kind.lane or "default", ", ".join(_properties(kind) or ()),
                since(kind.published_at, now), kind.published_by, kind.description.partition("\n")[0],
            )
            for kind in found
        ],
    )  # fmt: skip
    return 0


async def _some(desk: Desk, namespace: str | None, limit: int) -> AsyncIterator[Kind]:
    """Yield kinds up to a limit, page by page."""
    question = ListKinds(namespace=namespace, limit=limit)
    left = limit
    while left:
        page = await desk.store.read(question)
        for kind in page.kinds:
            yield kind
        left -= len(page.kinds)
        if page.next is None:
            return
        question = ListKinds(namespace=namespace, limit=max(1, left), after=page.next)


def _show(desk: Desk, kind: Kind) -> None:
    if desk.json:
        desk.screen.json(shown(kind))
        return
    screen = desk.screen
    screen.pairs({
        "kind": kind.kind,
        "namespace": kind.namespace or FOR_ALL,
        "lane": kind.lane or "default",
        "priority": "" if kind.priority is None else str(kind.priority),
        "tags": ", ".join(f"{key}={value}" for key, value in kind.tags),
        "capabilities": ", ".join(kind.required_capabilities),
        "fairness key": kind.fairness_key,
        "fairness weight": "" if kind.fairness_weight is None else str(kind.fairness_weight),
        "policy": kind.policy,
        "published": f"{since(kind.published_at, desk.now())} by {kind.published_by or 'somebody'}",
    })  # fmt: skip
    rows = list(_parameters(kind))
    if rows:
        screen.line()
        screen.table(("argument", "type", "default"), rows)
    if kind.description:
        screen.line()
        for line in kind.description.splitlines():
            screen.line(printable(line))


def _parameters(kind: Kind) -> Iterator[tuple[str, str, str]]:
    required = _required(kind)
    for name, schema in (_properties(kind) or {}).items():
        if name in required:
            default = "required"
        else:
            default = (
                json.dumps(schema["default"]) if isinstance(schema, dict) and "default" in schema else ""
            )
        yield name, _type(schema), default


def _type(schema: Any) -> str:
    """Name a type in a word or a few."""
    if not isinstance(schema, dict):
        return "any"
    choices = schema.get("anyOf")
    if isinstance(choices, list):
        return " or ".join(map(_type, choices))
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return reference.rpartition("/")[2]
    type_ = schema.get("type", "any")
    return " or ".join(map(str, type_)) if isinstance(type_, list) else str(type_)


# Before a submission.


async def published(desk: Desk, kind: str, namespace: str) -> Kind | None:
    """Return what a worker has published of a kind; none if nobody has, or if the server knows no kinds."""
    try:
        return await desk.store.read(GetKind(kind=kind, namespace=namespace))
    except NotFound:
        return None


def check_arguments(kind: Kind | None, data: bytes) -> None:
    """Refuse arguments whose names the kind does not know, and the lack of those that it needs."""
    properties = None if kind is None else _properties(kind)
    if kind is None or properties is None:
        return
    value = json.loads(data) if data else {}
    required = _required(kind)
    if not isinstance(value, dict) or (value and _takes_whole(properties, value, required)):
        return
    for name in value:
        if name not in properties and _schema(kind).get("additionalProperties", False) is False:
            takes = f"takes {', '.join(properties)}" if properties else "takes no arguments"
            near = get_close_matches(name, properties, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            problem = f"there is no such argument: {kind.kind} {takes}{meant}"
            raise invalid(name, f"{problem} (--no-check sends it anyway)")
    for name in required:
        if name not in value:
            raise invalid(name, f"{kind.kind} needs it, and it is missing (--no-check sends it anyway)")


def _takes_whole(properties: Mapping[str, Any], value: Mapping[str, Any], required: list[str]) -> bool:
    """Whether an object without any known name can be the first argument itself."""
    if not properties or not properties.keys().isdisjoint(value):
        return False
    first, schema = next(iter(properties.items()))
    return set(required) <= {first} and _may_be_object(schema)


def _may_be_object(schema: Any) -> bool:
    if not isinstance(schema, dict) or "$ref" in schema:
        return True
    choices = schema.get("anyOf")
    if isinstance(choices, list):
        return any(map(_may_be_object, choices))
    return bool(schema.get("type", "object") == "object")


def _schema(kind: Kind) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(kind.input_schema) if kind.input_schema else {}
    return schema


def _properties(kind: Kind) -> dict[str, Any] | None:
    """Return the schemas of the arguments by name; none when they are not known."""
    properties = _schema(kind).get("properties")
    return properties if isinstance(properties, dict) else None


def _required(kind: Kind) -> list[str]:
    required = _schema(kind).get("required", [])
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
