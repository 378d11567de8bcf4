"""Many commands in one call, where the server has a route for it: submissions, and renewals of one worker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from flowfabric.client.failures import told_failure
from flowfabric.client.transport import HttpRequest, Transport
from flowfabric.model.command import Command
from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.operations.lease import Renew, Renewed
from flowfabric.wire.answers import converted, decoded
from flowfabric.wire.create import (
    SUBMIT,
    SUBMIT_BATCH,
    SubmitBatchBody,
    SubmitBody,
    Submitted,
    SubmittedBatch,
)
from flowfabric.wire.lease import MAX_RENEWALS, RENEW_MANY, HeldLease, RenewalResults, RenewManyBody
from flowfabric.wire.route import Route

Send = Callable[[Transport, Sequence[Any]], Awaitable[list[Any]]]
MAX_ITEMS: Final = 1_000
MAX_BYTES: Final = 12 * 1024 * 1024
"""Of payloads in one batch, after their encoding; the server takes 16 MiB."""
RENEWER: Final = "client"
"""Names the caller in the path of a batch of renewals; the fences say who holds what."""


class Batch(Struct, frozen=True):
    """Commands that go together, and their places among all."""

    places: tuple[int, ...]
    commands: tuple[Command[Any], ...]
    send: Send | None = None
    """None: sent by themselves, one after the other."""


def split(commands: Iterable[tuple[int, Command[Any]]]) -> list[Batch]:
    """Put commands together that one route takes. Those on one execution keep their order, the others have none."""
    queues: dict[Any, list[tuple[int, Any]]] = {}
    for place, command in commands:
        queues.setdefault(getattr(command, "execution_id", place), []).append((place, command))
    singles: list[Batch] = []
    groups: dict[Any, list[tuple[int, Any]]] = {}
    for queue in queues.values():
        key = _route(queue[0][1]) if len(queue) == 1 else None
        if key is None:
            singles.append(_batch(queue, None))
        else:
            groups.setdefault(key, []).extend(queue)
    for key, members in groups.items():
        send, most = (_submit, MAX_ITEMS) if key is CreateExecution else (_renew, MAX_RENEWALS)
        singles += [_batch(part, send if len(part) > 1 else None) for part in _parts(members, most)]
    return singles


def _route(command: Command[Any]) -> Any:
    """Name the batch that a command may go with; none for one that says what a batch cannot say."""
    if isinstance(command, CreateExecution) and not command.actor:
        return CreateExecution
    if isinstance(command, Renew) and command.attempt_index is None and not command.actor:
        return command.lease_ttl_ms if command.source == "worker" else None
    return None


def _batch(part: list[tuple[int, Any]], send: Send | None) -> Batch:
    return Batch(tuple(place for place, _ in part), tuple(command for _, command in part), send)


def _parts(members: list[tuple[int, Any]], most: int) -> Iterable[list[tuple[int, Any]]]:
    """Cut a list where a batch would get too long or too large."""
    part: list[tuple[int, Any]] = []
    size = 0
    for member in members:
        weight = _weight(member[1])
        if part and (len(part) == most or size + weight > MAX_BYTES):
            yield part
            part, size = [], 0
        part.append(member)
        size += weight
    if part:
        yield part


def _weight(command: Any) -> int:
    if not isinstance(command, CreateExecution):
        return 0
    return (len(command.input_payload) + len(command.policy)) * 4 // 3 + 8_192


async def _submit(transport: Transport, commands: Sequence[Any]) -> list[Any]:
    items = [Raw(msgspec.json.encode(SUBMIT.write_form(command, SubmitBody, {}))) for command in commands]
    request = _request(SUBMIT_BATCH, SUBMIT_BATCH.path, SubmitBatchBody(items))
    results = decoded((await transport.send(request)).body, SubmittedBatch).results
    return [
        told_failure(told, 400) if "error" in told else converted(told, Submitted).model() for told in results
    ]


async def _renew(transport: Transport, commands: Sequence[Any]) -> list[Any]:
    body = RenewManyBody(tuple(map(HeldLease.of, commands)), commands[0].lease_ttl_ms)
    request = _request(RENEW_MANY, RENEW_MANY.path.replace("{worker_id}", RENEWER), body)
    results = decoded((await transport.send(request)).body, RenewalResults).results
    return [told_failure(told, 409) if "error" in told else Renewed(told["expires_at"]) for told in results]


def _request(route: Route, path: str, body: Struct) -> HttpRequest:
    return HttpRequest(method=route.method, path=path, body=msgspec.json.encode(body), safe=True)
