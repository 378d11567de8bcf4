"""Routes by the raw path, and the handler of each: names may hold any character, `/` as `%2F` included."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from flowfabric.server.http.call import Response, ServerCall
from flowfabric.wire.route import Route

Handler = Callable[[ServerCall], Awaitable[Response]]
_HANDLERS: Final[dict[str, Handler]] = {}


def serves(route: Route) -> Callable[[Handler], Handler]:
    """Register the handler of a route that does more than apply its command."""

    def register(handler: Handler) -> Handler:
        _HANDLERS[route.name] = handler
        return handler

    return register


def handler_of(route: Route) -> Handler:
    """Return the handler of a route: the registered one, else one that applies the command of the declaration."""
    return _HANDLERS.get(route.name) or _applies(route)


def _applies(route: Route) -> Handler:
    assert route.command is not None, f"{route.name} needs a handler in server/routes"

    async def handle(call: ServerCall) -> Response:
        return Response(route.answer.write(await apply(call, route)))

    return handle


async def apply(call: ServerCall, route: Route, **fields: Any) -> Any:
    """Apply the command of a route; `fields` are those that its declaration cannot compute."""
    given = call.body if route.body is not None else call.query
    return await call.apply(route.read_command(call, given, **fields))


class _Node:
    __slots__ = ("literal", "methods", "parameter")

    def __init__(self) -> None:
        self.literal: dict[bytes, _Node] = {}
        self.parameter: tuple[str, _Node] | None = None
        self.methods: dict[str, Route] = {}


class Router:
    """Finds the routes of a raw path, segment by segment."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._root = _Node()
        for route in routes:
            node = self._root
            for part in route.path.strip("/").split("/"):
                if part.startswith("{"):
                    if node.parameter is None:
                        node.parameter = (part[1:-1], _Node())
                    node = node.parameter[1]
                else:
                    node = node.literal.setdefault(part.encode(), _Node())
            node.methods[route.method] = route

    def find(self, raw_path: bytes) -> tuple[dict[str, Route], dict[str, bytes]]:
        """Return the methods of a path and its parameters, which need not be text; no methods: there is no such path.

        A slash too many is another path.
        """
        node = self._root
        parameters: dict[str, bytes] = {}
        for part in raw_path.removeprefix(b"/").split(b"/"):
            known = node.literal.get(part)
            if known is not None:
                node = known
            elif node.parameter is not None and part:
                name, node = node.parameter
                parameters[name] = unquote_to_bytes(part)
            else:
                return {}, {}
        return node.methods, parameters
