"""Routes by the raw path: names may hold any character, `/` as `%2F` included."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from flowfabric.server.roles import Need

if TYPE_CHECKING:
    from flowfabric.server.call import Answer, Call

KIB: Final = 1024
CONTROL: Final = 64 * KIB
MEDIUM: Final = 256 * KIB
LARGE: Final = 1024 * KIB
PAYLOAD: Final = 2048 * KIB
FRAMES: Final = 4096 * KIB
BATCH: Final = 16384 * KIB

EXECUTIONS: Final = "/v1/executions/{id}"
LINKS: Final = "/links/"
"""How the path of every route about one execution begins."""

FORM_TYPE: Final = "application/x-www-form-urlencoded"

Handler = Callable[["Call"], Awaitable["Answer"]]


class Endpoint(Struct, frozen=True):
    """One route: what it asks for, and what it does."""

    method: str
    path: str
    handler: Handler
    need: Need
    body: Any = None
    """The struct that the JSON body is decoded into; none: a body is not read, only limited."""
    body_optional: bool = False
    form: bool = False
    """Whether the body is that of an HTML form instead of JSON."""
    limit: int = CONTROL
    classic: bool = False
    """Whether `kind` in errors follows the older table instead of being the code."""
    query: Any = None
    """The struct that the query is decoded into."""
    bound: bool = False
    """Whether tokens that are bound to a namespace may use it: its handler keeps to that namespace.

    A route that names an execution is open to them without it: the gate looks whose execution that is.
    """
    summary: str = ""
    answers: tuple[tuple[int, str], ...] = ((200, "Done."),)

    @property
    def names_execution(self) -> bool:
        """Whether its path names an execution, as `{id}`."""
        return self.path.startswith(EXECUTIONS)

    @property
    def own_page(self) -> bool:
        """Whether a page of ours sends it that hides its origin, since its address is a secret."""
        return self.path.startswith(LINKS)


_ENDPOINTS: Final[list[Endpoint]] = []


def endpoint(
    method: str,
    path: str,
    need: Need,
    *,
    body: Any = None,
    body_optional: bool = False,
    form: bool = False,
    limit: int = CONTROL,
    classic: bool = False,
    query: Any = None,
    bound: bool = False,
    answers: Sequence[tuple[int, str]] = ((200, "Done."),),
) -> Callable[[Handler], Handler]:
    """Register a handler under a route; its docstring is the route's summary."""

    def register(handler: Handler) -> Handler:
        summary = (handler.__doc__ or "").strip()
        _ENDPOINTS.append(
            Endpoint(
                method,
                path,
                handler,
                need,
                body,
                body_optional,
                form,
                limit,
                classic,
                query,
                bound,
                summary,
                tuple(answers),
            )
        )
        return handler

    return register


def endpoints() -> tuple[Endpoint, ...]:
    """Return every registered route."""
    return tuple(_ENDPOINTS)


class _Node:
    __slots__ = ("literal", "methods", "parameter")

    def __init__(self) -> None:
        self.literal: dict[bytes, _Node] = {}
        self.parameter: tuple[str, _Node] | None = None
        self.methods: dict[str, Endpoint] = {}


class Router:
    """Finds the endpoint of a raw path, segment by segment."""

    def __init__(self, routes: Sequence[Endpoint]) -> None:
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

    def find(self, raw_path: bytes) -> tuple[dict[str, Endpoint], dict[str, bytes]]:
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
