"""Requests of commands and questions, made from the declarations of their routes; and what has no route."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, get_args, get_origin

import msgspec
from msgspec import Struct

from flowfabric.client.transport import HttpRequest
from flowfabric.model.command import Command, Question
from flowfabric.model.errors import NotOffered
from flowfabric.model.operations import access, access_secret, claim, lane, operate, timer
from flowfabric.wire import routes_by_command, routes_by_question
from flowfabric.wire.route import RECORD

_TIMERS: Final = "the server's engine does it when it is due"
_SECRETS: Final = "the server seeds its secret itself; rotate it with POST /v1/admin/rotate-waitpoint-secret"
_TOKENS: Final = "only the server sees what is stored of a token; use /v1/admin/tokens"

NOT_OFFERED: Final[Mapping[type[Command[Any]], str]] = {
    timer.MarkLeaseExpired: _TIMERS,
    timer.PromoteDelayed: _TIMERS,
    timer.ExpireSuspension: _TIMERS,
    timer.ExpireExecution: _TIMERS,
    timer.ExpireWaitpoints: _TIMERS,
    timer.Purge: _TIMERS,
    timer.LoseDeadLease: "mark the worker dead: the server takes its leases in the same call",
    access_secret.SeedSecret: _SECRETS,
    access_secret.RotateSecret: _SECRETS,
    lane.OpenLane: "name the lanes in the server's settings; any other comes into being with its first execution",
    operate.Block: "admission inside the engine blocks work; operators pause it",
    operate.Unblock: "admission inside the engine lets work go on; operators unpause it",
    access.CreateToken: _TOKENS,
    access.DeleteToken: _TOKENS,
    access.ListTokens: _TOKENS,
    access.SignLink: "ask for a link with POST /v1/executions/{id}/waitpoints/{waitpoint_id}/link",
    access_secret.ReadCursorKeys: "the keys of a server are its own; its lists come with cursors",
    access_secret.ListKids: "the keys of a server are its own; GET /healthz says whether it is ready",
    timer.ReadDue: _TIMERS,
    claim.FindClaimable: "claim at once, or ask for a grant with POST /v1/workers/{worker_id}/claim",
}
"""What stays inside the server, and what to do instead."""


def not_offered(command: Command[Any]) -> NotOffered:
    """Say that an operation does not cross HTTP."""
    remedy = NOT_OFFERED.get(type(command), "open the store itself")
    return NotOffered(f"{type(command).__name__} is not offered over HTTP: {remedy}")


def request_of(command: Command[Any], wait_seconds: float = 0.0, **more: Any) -> HttpRequest:
    """Write the request of a command; `more` are fields of its body."""
    route = routes_by_command()[type(command)]
    body = None
    if route.body is not None:
        body = msgspec.json.encode(route.write_form(command, route.body, more))
    return HttpRequest(
        method=route.method,
        path=route.write_path(command),
        body=body,
        query={} if route.query is None else _texts(route.write_form(command, route.query, {})),
        safe=route.safe(command),
        actor=command.actor,
        wait_seconds=wait_seconds,
    )


def _texts(query: Struct) -> dict[str, str]:
    values = ((name, getattr(query, name)) for name in query.__struct_fields__)
    return {name: "true" if value is True else str(value) for name, value in values if value}


def question_request(question: Question[Any], wait_seconds: float = 0.0, **more: str) -> HttpRequest:
    """Write the request of a question: what its path does not say goes along as JSON."""
    route = routes_by_question()[type(question)]
    kind = type(question)
    named = {route.field_in_path(parameter, kind) for parameter in route.parameters}
    defaults = _defaults(kind)
    fields = {
        name: getattr(question, name)
        for name in question.__struct_fields__
        if name not in named and getattr(question, name) != defaults.get(name)
    }
    text = msgspec.json.encode({kind.__name__: fields}).decode()
    return HttpRequest(
        method=route.method,
        path=route.write_path(question),
        query={"question": text, **more},
        accept=RECORD,
        safe=True,
        wait_seconds=wait_seconds,
    )


@cache
def _defaults(kind: type[Struct]) -> dict[str, Any]:
    return {field.name: field.default for field in msgspec.structs.fields(kind)}


@cache
def answer_type(kind: type[Question[Any]]) -> Any:
    """Return the type of the answers to a question, as its class declares it."""
    for base in kind.__mro__:
        for declared in getattr(base, "__orig_bases__", ()):
            arguments = get_args(declared)
            if arguments and issubclass(get_origin(declared), Question) and not _is_variable(arguments[0]):
                return arguments[0]
    raise TypeError(f"{kind.__name__} does not say what its answer is")


def _is_variable(argument: Any) -> bool:
    return type(argument).__name__ == "TypeVar"
