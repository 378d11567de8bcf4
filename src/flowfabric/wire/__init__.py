"""How commands and questions cross HTTP: each route is declared once, here.

A declaration (`Route`, made with `route(…)`) names the method and path, the right that the caller needs, the structs of
body, query and answer, the size limit, whether a repeat is safe, and an example. Everything else follows from it:

- **The server** decodes the body, builds the command, applies it and encodes the answer. Only a route that does more
  than this has a handler in `server/routes`, in the module of the same area.
- **The client** builds path, query and body from the command, and reads the answer.
- **OpenAPI** takes its schemas from the structs (`msgspec.json.schema_components`).

Fields are copied by name between command and body. A parameter of the path fills the field of its name (`{id}` is
`execution_id`), `actor` is the caller, and `namespace` is the one that the token may use. What names cannot say is
declared beside: other names (`names`), fields to compute on the server (`takes`) and on the client (`sends`), and
fields that always look different on the wire (`adapters`). An answer is `one_of(…)` the engine's answers, which look
the same on the wire, or a `View` that is built from a record by the names of its fields.

A question is answered with the engine's own records where a caller accepts `RECORD`; a route lists such questions in
`questions`. For programs that know no engine the same route answers with a `View`.

To add an operation: its contract and step in `model`, one declaration here in the module of its area, one conformance
test.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final

from flowfabric.model.command import Command
from flowfabric.wire.route import Route, declared_routes

AREAS: Final = (
    "about",
    "access",
    "claim",
    "create",
    "finish",
    "grant",
    "kind",
    "lane",
    "lease",
    "operate",
    "read",
    "signal",
    "step",
    "stream",
    "suspend",
    "worker",
)


@cache
def routes() -> tuple[Route, ...]:
    """Return every route."""
    for area in AREAS:
        import_module(f"flowfabric.wire.{area}")
    return declared_routes()


@cache
def routes_by_command() -> Mapping[type[Command[Any]], Route]:
    """Return the route of each command that crosses HTTP."""
    return {kind: route for route in routes() for kind in route.commands}


@cache
def routes_by_question() -> Mapping[type[Command[Any]], Route]:
    """Return the route of each question that crosses HTTP."""
    return {kind: route for route in routes() for kind in route.questions}
