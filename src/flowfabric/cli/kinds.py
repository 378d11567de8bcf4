"""`ff kinds`: what workers have published of their tasks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from flowfabric.cli.desk import Desk, command
from flowfabric.cli.schemas import properties_of, required_of, schema_of, type_name
from flowfabric.cli.screen import printable
from flowfabric.model.errors import NotFound
from flowfabric.model.operations.kind import GetKind, ListKinds
from flowfabric.model.records import Kind
from flowfabric.model.times import since
from flowfabric.wire.kind import KindView

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
    found = [kind async for kind in listed(desk, given.namespace, given.limit)]
    if desk.json:
        desk.screen.json([KindView.of(kind) for kind in found])
        return 0
    now = desk.now()
    desk.screen.table(
        ("kind", "namespace", "lane", "arguments", "published", "by", "description"),
        [
            (
                kind.kind, kind.namespace or FOR_ALL, kind.lane or "default", _names(kind),
                since(kind.published_at, now), kind.published_by, kind.description.partition("\n")[0],
            )
            for kind in found
        ],
    )  # fmt: skip
    return 0


def _names(kind: Kind) -> str:
    return ", ".join(properties_of(schema_of(kind)) or ())


async def listed(desk: Desk, namespace: str | None, limit: int) -> AsyncIterator[Kind]:
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
        desk.screen.json(KindView.of(kind))
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
    whole = schema_of(kind)
    required = required_of(whole)
    for name, schema in (properties_of(whole) or {}).items():
        if name in required:
            default = "required"
        else:
            default = (
                json.dumps(schema["default"]) if isinstance(schema, dict) and "default" in schema else ""
            )
        yield name, type_name(schema), default


async def published(desk: Desk, kind: str, namespace: str) -> Kind | None:
    """Return what a worker has published of a kind; none if nobody has, or if the server knows no kinds."""
    try:
        return await desk.store.read(GetKind(kind=kind, namespace=namespace))
    except NotFound:
        return None
