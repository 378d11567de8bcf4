"""Giving the lease back until signals come."""

from __future__ import annotations

from msgspec.structs import replace

from flowfabric.engine import every_waitpoint
from flowfabric.model.condition_json import parse_condition
from flowfabric.model.conditions import Condition, friendly_condition, list_condition, referenced_keys
from flowfabric.model.errors import NotFound, invalid
from flowfabric.model.operations.suspend import Binding
from flowfabric.model.operations.suspend_waitpoint import ListWaitpoints, ReadToken
from flowfabric.server.http.call import NO_STORE, Response, ServerCall
from flowfabric.server.http.listing import read_list
from flowfabric.server.http.routing import apply, serves
from flowfabric.storage.minting import new_uuid
from flowfabric.wire.errors import HttpError
from flowfabric.wire.fields import HOLDER_SOURCES, path_uuid
from flowfabric.wire.rights import Right
from flowfabric.wire.suspend import (
    LIST_WAITPOINTS,
    READ_TOKEN,
    SUSPEND,
    SuspendBody,
    TokenOfWaitpoint,
    generated_key,
)
from flowfabric.wire.views import WaitpointRow


@serves(SUSPEND)
async def suspend(call: ServerCall) -> Response:
    """Give the lease back until a condition on signals holds; keep it where that is so already."""
    body: SuspendBody = call.body
    if body.source not in HOLDER_SOURCES:
        call.demand(Right.OPERATE)
    if body.waitpoints is None:
        condition, waitpoints = _plan(body, await _pending_key(call, body))
    else:
        condition, waitpoints = _given_condition(body), body.waitpoints
    if not body.allow_operator_override:
        condition = replace(condition, operator_override=False)
    outcome = await apply(
        call,
        SUSPEND,
        condition=condition,
        waitpoints=waitpoints,
        suspension_id=body.suspension_id or call.new_id(),
    )
    return Response(SUSPEND.answer.write(outcome))


async def _pending_key(call: ServerCall, body: SuspendBody) -> str:
    """Look up the key of a waitpoint made ahead, where signals on it are to be counted."""
    if body.use_waitpoint_id is None or body.waitpoint_key or not body.distinct:
        return body.waitpoint_key or ""
    found = await call.server.live.read_large(every_waitpoint(call.store, call.execution_id))
    keys = [w.waitpoint_key for w in found if w.waitpoint_id == body.use_waitpoint_id]
    # One that is not open is refused by the suspension itself, in its own words; any key will do for that.
    return keys[0] if keys else generated_key(body.use_waitpoint_id)


def _given_condition(body: SuspendBody) -> Condition:
    """Read the condition of a caller that brings its own waitpoints: it says itself which one it listens on."""
    if body.condition is not None:
        return parse_condition(body.condition)
    # Names are judged as everywhere; an empty one takes any signal, and the others keep their own slots.
    friendly_condition([name for name in body.signals if name], "any", 0, "", ())
    return list_condition(body.signals, body.mode or "any", body.count or 1, body.waitpoint_key or "")


def _plan(body: SuspendBody, key: str) -> tuple[Condition, tuple[Binding, ...]]:
    """Turn what was asked for into a condition and the waitpoints that it listens on, the primary first."""
    primary_id = body.use_waitpoint_id or new_uuid()
    pending = body.use_waitpoint_id is not None
    if body.condition is not None:
        if body.signals or body.mode or body.count or body.distinct:
            raise invalid("condition", "give a condition, or signals with mode, count and distinct, not both")
        condition = parse_condition(body.condition)
        keys = referenced_keys(condition)
        if keys and key and key not in keys:
            raise invalid("waitpoint_key", "the condition does not name it")
        first = keys[0] if keys else key
    else:
        first = key if pending else key or generated_key(primary_id)
        listens = (first,) if first else ()
        condition = friendly_condition(
            body.signals, body.mode or "any", body.count or 0, body.distinct or "", listens
        )
        keys = listens
    primary = Binding(primary_id, first if pending else first or generated_key(primary_id), pending)
    return condition, (primary, *(Binding(new_uuid(), other) for other in keys[1:]))


@serves(LIST_WAITPOINTS)
async def pending_waitpoints(call: ServerCall) -> Response:
    """List the open waitpoints of an execution."""
    after = path_uuid("after", call.query.after) if call.query.after else ""
    question = ListWaitpoints(execution_id=call.execution_id, after=after, limit=call.query.limit)
    page = await read_list(call, question)
    return Response([WaitpointRow.of(view) for view in page.waitpoints])


@serves(READ_TOKEN)
async def waitpoint_token(call: ServerCall) -> Response:
    """Return the token of an open waitpoint."""
    execution_id = call.execution_id
    waitpoint_id = path_uuid("waitpoint_id", call.path["waitpoint_id"])
    try:
        token = await call.read(ReadToken(execution_id=execution_id, waitpoint_id=waitpoint_id))
    except NotFound:
        token = None
    if token is None:
        missing = "waitpoint token not found (consumed, expired, or unknown id)"
        raise HttpError(404, missing, "not_found", headers=NO_STORE)
    return Response(TokenOfWaitpoint(token=token), headers=NO_STORE)
