"""Creating executions: by submission, where the server mints the id, or under an id of the caller's."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from flowfabric.model.errors import FlowFabricError
from flowfabric.model.kinds import with_defaults
from flowfabric.model.operations.create import CreateExecution, Duplicate
from flowfabric.server.http.call import Response, ServerCall
from flowfabric.server.http.routing import serves
from flowfabric.wire.classic import misshapen_policy
from flowfabric.wire.create import (
    CREATE,
    SUBMIT,
    SUBMIT_BATCH,
    DuplicateView,
    SubmitBody,
    Submitted,
    SubmittedBatch,
)
from flowfabric.wire.errors import HttpError, Refusal, refusal_of

_ITEM = msgspec.json.Decoder(SubmitBody)


@serves(SUBMIT)
async def submit(call: ServerCall) -> Response:
    """Submit one piece of work, with the defaults of its kind."""
    (command,) = await _resolved(call, [(call.body, SUBMIT.read_command(call, call.body))])
    reply = await call.apply(command)
    return Response(Submitted.of(reply), 200 if isinstance(reply, Duplicate) else 201)


@serves(SUBMIT_BATCH)
async def submit_batch(call: ServerCall) -> Response:
    """Submit many pieces of work; results come in order, each a submission's answer or its error."""
    found: list[tuple[SubmitBody, CreateExecution]] = []
    results: list[Submitted | Refusal | None] = []
    for raw in call.body.items:
        try:
            item = _decode(raw)
            found.append((item, SUBMIT.read_command(call, item)))
            results.append(None)
        except (HttpError, FlowFabricError) as error:
            results.append(refusal_of(error, SubmitBody))
    replies = iter(await call.apply_many(await _resolved(call, found)))
    for place, result in enumerate(results):
        if result is None:
            reply = next(replies)
            results[place] = (
                refusal_of(reply, SubmitBody) if isinstance(reply, FlowFabricError) else Submitted.of(reply)
            )
    return Response(SubmittedBatch(results=results))


async def _resolved(
    call: ServerCall, found: Sequence[tuple[SubmitBody, CreateExecution]]
) -> list[CreateExecution]:
    """Put the defaults of the kinds into the commands, after one lookup for all of them."""
    pairs = [(each.namespace, each.execution_kind) for item, each in found if item.kind_defaults]
    kinds = await call.server.kinds.find(call.store, pairs)
    return [
        with_defaults(each, kinds[each.namespace, each.execution_kind] if item.kind_defaults else None)
        for item, each in found
    ]


def _decode(raw: msgspec.Raw) -> SubmitBody:
    from flowfabric.server.http.gate import decode_body  # noqa: PLC0415 - the gate loads the routes

    item: SubmitBody = decode_body(_ITEM, bytes(raw))
    return item


@serves(CREATE)
async def create(call: ServerCall) -> Response:
    """Create an execution under an id of the caller's."""
    command = CREATE.read_command(call, call.body, CreateExecution)
    try:
        reply = await call.apply(command)
    except FlowFabricError as error:
        raise misshapen_policy(error) or error from error
    if isinstance(reply, Duplicate):
        return Response(CREATE.answer.write(DuplicateView(execution_id=reply.execution_id)))
    return Response(CREATE.answer.write(reply), 201)
