"""`ff kinds`: list the tasks that workers have published, or show one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from flowfabric.cli.support.input_schema import properties_of, required_of, schema_of, type_name
from flowfabric.cli.support.options import add_limit
from flowfabric.cli.support.pages import iterate_kinds
from flowfabric.cli.support.session import CommandSession, add_store_command
from flowfabric.cli.support.text import printable
from flowfabric.model.kinds import DEFAULT_LANE
from flowfabric.model.operations.kind import GetKind
from flowfabric.model.records import Kind
from flowfabric.model.times import since
from flowfabric.wire.kind import KindView

ALL_NAMESPACES: Final = "all"


def add(commands: Any) -> None:
    """Add the parser of `ff kinds`."""
    about = "list the tasks that workers have published, or show one"
    parser = add_store_command(commands, "kinds", about, kinds)
    parser.add_argument("kind", nargs="?", default="", metavar="KIND", help="show this one")
    parser.add_argument(
        "--namespace", default=None, help="as this namespace sees them: its own, and those for all"
    )
    add_limit(parser, 100)


async def kinds(session: CommandSession) -> int:
    """List kinds, or show the one that was named."""
    given = session.given
    if given.kind:
        _show(session, await session.store.read(GetKind(kind=given.kind, namespace=given.namespace or "")))
        return 0
    found = [kind async for kind in iterate_kinds(session.store, given.namespace, given.limit)]
    if session.json:
        session.output.json([KindView.of(kind) for kind in found])
        return 0
    now = session.now()
    session.output.table(
        ("kind", "namespace", "lane", "arguments", "published", "by", "description"),
        [
            (
                kind.kind,
                kind.namespace or ALL_NAMESPACES,
                kind.lane or DEFAULT_LANE,
                ", ".join(properties_of(schema_of(kind)) or ()),
                since(kind.published_at, now),
                kind.published_by,
                kind.description.partition("\n")[0],
            )
            for kind in found
        ],
    )
    return 0


def _show(session: CommandSession, kind: Kind) -> None:
    output = session.output
    if session.json:
        output.json(KindView.of(kind))
        return
    output.pairs(
        {
            "kind": kind.kind,
            "namespace": kind.namespace or ALL_NAMESPACES,
            "lane": kind.lane or DEFAULT_LANE,
            "priority": "" if kind.priority is None else str(kind.priority),
            "tags": ", ".join(f"{key}={value}" for key, value in kind.tags),
            "capabilities": ", ".join(kind.required_capabilities),
            "fairness key": kind.fairness_key,
            "fairness weight": "" if kind.fairness_weight is None else str(kind.fairness_weight),
            "policy": kind.policy,
            "published": f"{since(kind.published_at, session.now())} by {kind.published_by or 'somebody'}",
        }
    )
    rows = list(_parameter_rows(kind))
    if rows:
        output.line()
        output.table(("argument", "type", "default"), rows)
    if kind.description:
        output.line()
        for line in kind.description.splitlines():
            output.line(printable(line))


def _parameter_rows(kind: Kind) -> Iterator[tuple[str, str, str]]:
    schema = schema_of(kind)
    required = required_of(schema)
    for name, each in (properties_of(schema) or {}).items():
        if name in required:
            default = "required"
        else:
            default = json.dumps(each["default"]) if isinstance(each, dict) and "default" in each else ""
        yield name, type_name(each), default
