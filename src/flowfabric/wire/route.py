"""The declaration of a route: how a command or question crosses HTTP.

See `flowfabric.wire` for what server, client and OpenAPI derive from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote

from msgspec import UNSET, Struct

from flowfabric.model.command import Command, Question
from flowfabric.model.ids import Partitions
from flowfabric.wire.adapters import IN, OUT
from flowfabric.wire.answers import OneOf
from flowfabric.wire.fields import HOLDER_SOURCES, path_uuid
from flowfabric.wire.rights import Right

KIB: Final = 1024
CONTROL: Final = 64 * KIB
MEDIUM: Final = 256 * KIB
LARGE: Final = 1024 * KIB
PAYLOAD: Final = 2048 * KIB
FRAMES: Final = 4096 * KIB
BATCH: Final = 16384 * KIB

RUN: Final = "/v1/executions/{id}"
"""How the path of every route about one execution begins."""
LINKS: Final = "/links/"
JSON: Final = "application/json"
FORM: Final = "application/x-www-form-urlencoded"
RECORD: Final = "application/vnd.flowfabric.record+json"
"""The media type under which questions are answered with the records of the engine."""

_PATH_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "id": ("execution_id",),
    "idx": ("attempt_index",),
    "lane": ("lane_id",),
    "name": ("step_name",),
    "worker_id": ("worker_id", "worker_instance_id"),
}
"""Path parameters whose names differ from the fields that they fill."""


class Incoming(Protocol):
    """What a conversion may ask of the request that carries a body."""

    path: dict[str, str]
    behalf: str

    @property
    def execution_id(self) -> str:
        """Return the checked execution id of the path."""

    @property
    def actor(self) -> str:
        """Return who acts, for the history."""

    @property
    def partitions(self) -> Partitions:
        """Return how execution ids are spread."""

    def author(self, named: str) -> str:
        """Return who creates something: the token's name, else the name that the body gives."""

    def namespace(self, asked: str | None) -> str:
        """Return the namespace to write to; refuse one that the token may not use."""

    def claim_namespace(self, asked: str | None) -> str:
        """Return the namespace to claim from: the one asked for, else that of the token; empty for all."""

    def own_namespace(self, asked: str | None) -> str:
        """Return the namespace whose kinds a token writes: its own, else the one asked for; empty for all."""

    def demand(self, right: Right) -> None:
        """Refuse a caller without this right."""

    def now(self) -> int:
        """Return the time of the store."""

    def new_id(self) -> str:
        """Return a random UUID."""


_NEVER_COPIED: Final = frozenset({"execution_id", "namespace"})
"""Fields of a body that are judged before they count."""
Takes = Callable[[Any, Any], dict[str, Any]]
Sends = Callable[[Any], Mapping[str, Any]]


def never(_: Any) -> bool:
    """A repeat would act twice, or be refused."""
    return False


def always(_: Any) -> bool:
    """A repeat is recognised by an id in the command, or changes nothing more."""
    return True


def fenced(command: Any) -> bool:
    """A repeat by the holder of the attempt gets the answer of the first call."""
    return bool(command.fence.whole)


def keyed(command: Any) -> bool:
    """A repeat is recognised by its idempotency key."""
    return bool(command.idempotency_key)


class _Plan(NamedTuple):
    """How a command is built from a request; computed once."""

    holder: bool
    namespaced: bool
    copied: tuple[tuple[str, str, Callable[[Any], Any] | None], ...]
    """Name in the body, name in the command, and the adapter between them."""
    in_path: tuple[tuple[str, str], ...]


class Route(Struct, frozen=True, kw_only=True, dict=True):
    """One method on one path: who may call it, what it takes and what it answers."""

    name: str
    """The operation id in OpenAPI."""
    method: str
    path: str
    right: Right
    summary: str
    command: type[Command[Any]] | None = None
    """The command that the route applies; more than one where the body decides: see `also`."""
    also: tuple[type[Command[Any]], ...] = ()
    questions: tuple[type[Question[Any]], ...] = ()
    """Questions that are answered here with the records themselves, see `RECORD`."""
    body: Any = None
    """The struct of the body; None: a body is limited, but not read."""
    body_optional: bool = False
    query: Any = None
    """The struct of the query."""
    answer: Any = None
    """The type of the answer, or `one_of(…)`."""
    media: str = JSON
    statuses: tuple[tuple[int, str], ...] = ((200, "Done."),)
    form: bool = False
    """True if the body is that of an HTML form."""
    limit: int = CONTROL
    """The largest body, in bytes."""
    classic: bool = False
    """True if errors look as those of the older interface: see `flowfabric.wire.classic`."""
    bound: bool = False
    """True if tokens that are bound to a namespace may call it, because its handler keeps to that namespace.

    A route that names an execution is open to them without it: the gate checks whose execution it is.
    """
    safe: Callable[[Any], bool] = never
    """Returns True if the client may repeat the request after an answer was lost."""
    names: Mapping[str, str] = {}
    """Fields of the body whose names differ from those of the command: name in the body -> name in the command."""
    takes: Takes | None = None
    """Returns fields of the command that do not follow from names: `(request, body) -> fields`."""
    sends: Sends | None = None
    """Returns fields of the body that do not follow from names: `(command) -> fields`; None leaves one out."""
    reads: Callable[[Any, Any], Any] | None = None
    """Reads an answer that is not `one_of(…)`: `(command, reply) -> answer`, where `reply` has headers and a body."""
    example: Any = None
    examples: Mapping[int, Any] = {}
    """Examples of answers, by status."""

    @property
    def names_execution(self) -> bool:
        """Return whether the path names an execution, as `{id}`."""
        return self.path.startswith(RUN)

    @property
    def own_page(self) -> bool:
        """Return whether a page of the server sends it that hides its origin, since its address is a secret."""
        return self.path.startswith(LINKS)

    @property
    def commands(self) -> tuple[type[Command[Any]], ...]:
        """Return every command that crosses here."""
        return self.also if self.command is None else (self.command, *self.also)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """Return the names of the path's parameters."""
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))

    def field_in_path(self, parameter: str, kind: type[Struct]) -> str:
        """Return which field of a command a parameter of the path fills; empty if none."""
        known = kind.__struct_fields__
        return next((name for name in _PATH_FIELDS.get(parameter, (parameter,)) if name in known), "")

    # From the request to the command: the server's side.

    def read_command(
        self, call: Incoming, given: Any, kind: type[Command[Any]] | None = None, **fields: Any
    ) -> Any:
        """Build the command from the path and from the body or query, by the names of its fields.

        `kind` says which command it is where the body decides; `fields` are those that nobody else can compute.
        """
        kind = kind or self.command
        assert kind is not None
        plan = self._plans.get(kind) or self._plan(kind)
        if plan.holder and given.source not in HOLDER_SOURCES:
            call.demand(Right.OPERATE)
        if self.takes is not None:
            fields = self.takes(call, given) | fields
        fields.setdefault("actor", call.behalf if plan.holder else call.actor)
        if given is not None:
            for name, to, adapt in plan.copied:
                if to in fields:
                    continue
                value = getattr(given, name)
                if value is not None and value is not UNSET:
                    fields[to] = value if adapt is None else adapt(value)
        for parameter, name in plan.in_path:
            if name not in fields:
                fields[name] = _in_path(call, parameter, name)
        if plan.namespaced and "namespace" not in fields:
            fields["namespace"] = call.namespace(getattr(given, "namespace", None))
        return kind(**fields)

    @cached_property
    def _plans(self) -> dict[type[Command[Any]], _Plan]:
        return {}

    def _plan(self, kind: type[Command[Any]]) -> _Plan:
        known = kind.__struct_fields__
        form = self.body or self.query
        pairs = ((name, self.names.get(name, name)) for name in form.__struct_fields__)
        places = ((parameter, self.field_in_path(parameter, kind)) for parameter in self.parameters)
        plan = self._plans[kind] = _Plan(
            "fence" in known,
            "namespace" in known,
            tuple((name, to, IN.get(to)) for name, to in pairs if to in known and to not in _NEVER_COPIED),
            tuple((parameter, name) for parameter, name in places if name),
        )
        return plan

    # From the command to the request: the client's side.

    def write_path(self, command: Struct) -> str:
        """Write the path of a command, each parameter as one segment."""
        parts = (
            quote(str(getattr(command, self.field_in_path(part[1:-1], type(command)))), safe="")
            if part.startswith("{")
            else part
            for part in self.path.split("/")
        )
        return "/".join(parts)

    def write_form(self, command: Command[Any], form: Any, more: Mapping[str, Any]) -> Any:
        """Build the body or query of a command, by the names of its fields."""
        fields = {**self.sends(command), **more} if self.sends is not None else dict(more)
        for name in form.__struct_fields__:
            to = self.names.get(name, name)
            if name not in fields and to in command.__struct_fields__ and to != "execution_id":
                value = getattr(command, to)
                if value is not None:
                    adapt = OUT.get(to)
                    fields[name] = value if adapt is None else adapt(value)
        return form(**{name: value for name, value in fields.items() if value is not None})

    def read_answer(self, command: Command[Any], reply: Any) -> Any:
        """Read the answer of the server into that of the engine."""
        if self.reads is not None:
            return self.reads(command, reply)
        assert isinstance(self.answer, OneOf)
        return self.answer.read(reply.body)


def _in_path(call: Incoming, parameter: str, name: str) -> str:
    if name == "execution_id":
        return call.execution_id
    text = call.path[parameter]
    return path_uuid(name, text) if name == "waitpoint_id" else text


_ROUTES: Final[list[Route]] = []


def route(name: str, method: str, path: str, right: Right, summary: str, **rest: Any) -> Route:
    """Declare a route."""
    declared = Route(name=name, method=method, path=path, right=right, summary=summary, **rest)
    _ROUTES.append(declared)
    return declared


def declared_routes() -> tuple[Route, ...]:
    """Return the routes that were declared so far; `flowfabric.wire.routes` returns all."""
    return tuple(_ROUTES)
