"""Executions one by one: creating them, and what they look like."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from flowfabric.model import checks
from flowfabric.model.errors import FlowFabricError, NotFound
from flowfabric.model.operations.create import CreateExecution, Duplicate
from flowfabric.model.operations.read import Describe, GetExecution, GetResult
from flowfabric.model.operations.suspend_waitpoint import ListWaitpoints, ReadToken
from flowfabric.model.records import Execution
from flowfabric.model.state import Eligibility, Phase, Public
from flowfabric.server.call import Answer, Call
from flowfabric.server.errors import BAD_SHAPE, HttpError, unprocessable
from flowfabric.server.forms import (
    U16,
    ByteList,
    Clock,
    ExecutionIdText,
    LaneText,
    Ms,
    Priority,
    path_uuid,
    to_bytes,
)
from flowfabric.server.listing import read_list
from flowfabric.server.roles import Need
from flowfabric.server.routing import LARGE, endpoint
from flowfabric.server.shapes import execution_not_found, present, vector, waitpoint

_NO_STORE = (("cache-control", "no-store"),)


class Creation(Struct, frozen=True):
    """An execution whose id the caller has minted."""

    execution_id: ExecutionIdText
    namespace: str
    lane_id: LaneText
    execution_kind: str
    input_payload: ByteList
    priority: Priority
    creator_identity: str
    partition_id: U16
    """A copy of what the id says; the id decides."""
    now: Clock
    """The caller's clock; the store's decides."""
    payload_encoding: str | None = None
    idempotency_key: str | None = None
    tags: dict[str, str] | None = None
    policy: msgspec.Raw | UnsetType = UNSET
    delay_until: Ms | None = None
    execution_deadline_at: Ms | None = None


@endpoint(
    "POST", "/v1/executions", Need.SUBMIT, body=Creation, limit=LARGE, classic=True, bound=True,
    answers=((201, "A new execution."), (200, "The id or the key was used before.")),
)  # fmt: skip
async def create(call: Call) -> Answer:
    """Create an execution under an id of the caller's."""
    body: Creation = call.body
    command = CreateExecution(
        execution_id=body.execution_id, execution_kind=body.execution_kind, lane_id=body.lane_id,
        namespace=call.namespace(body.namespace), creator_identity=body.creator_identity,
        input_payload=to_bytes("input_payload", body.input_payload),
        payload_encoding=body.payload_encoding or "", priority=body.priority,
        idempotency_key=body.idempotency_key or "", tags=checks.tags(body.tags or {}),
        policy=_policy(body.policy), delay_until=body.delay_until,
        execution_deadline_at=body.execution_deadline_at, actor=call.author(body.creator_identity),
    )  # fmt: skip
    try:
        reply = await call.apply(command)
    except FlowFabricError as error:
        raise _misshapen_policy(error) or error from error
    if isinstance(reply, Duplicate):
        return Answer({"Duplicate": {"execution_id": reply.execution_id}})
    return Answer({"Created": {"execution_id": reply.execution_id, "public_state": reply.public_state}}, 201)


def _misshapen_policy(error: FlowFabricError) -> HttpError | None:
    """Take a policy field of the wrong type for what it is on this route: a body of the wrong shape."""
    detail = error.details[0] if error.details else ""
    if error.code != "invalid_policy_json" or detail.startswith(("malformed", "routing_requirements:")):
        return None
    return HttpError(422, f"{BAD_SHAPE}: {error.text}", error.code, kind=error.code, field="policy")


def _policy(raw: msgspec.Raw | UnsetType) -> bytes:
    """Return the policy as it was sent; options that are null are taken as absent."""
    text = b"" if isinstance(raw, UnsetType) else bytes(raw)
    if text in {b"", b"null"}:
        return b""
    if not text.startswith(b"{"):
        raise unprocessable("policy", "must be an object")
    if b"null" not in text:
        return text
    try:
        return msgspec.json.encode(_without_nulls(msgspec.json.decode(text)))
    except (msgspec.DecodeError, RecursionError):
        return text  # the engine says what is wrong with it


def _without_nulls(value: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _without_nulls(each) if isinstance(each, dict) else each
        for name, each in value.items()
        # Routing that is null would lift a requirement that somebody meant to make: the engine refuses it.
        if each is not None or name == "routing_requirements"
    }


async def _described(call: Call) -> Execution:
    execution_id = call.execution_id
    try:
        run = await call.read(GetExecution(execution_id=execution_id))
        if run.lifecycle_phase is Phase.RUNNABLE and run.eligibility_state is Eligibility.NOW:
            return (
                await call.read(Describe(execution_id=execution_id))
            ).run  # as its lane and workers let it
    except NotFound as error:
        raise execution_not_found(execution_id) from error
    return run


@endpoint("GET", "/v1/executions/{id}", Need.READ, classic=True)
async def show(call: Call) -> Answer:
    """Show an execution."""
    run = await _described(call)
    shown: dict[str, Any] = {
        "execution_id": run.execution_id,
        "namespace": run.namespace,
        "lane_id": run.lane_id,
        "execution_kind": run.execution_kind,
        "priority": run.priority,
        "state_vector": vector(run),
        "public_state": run.public_state,
        "created_at": str(run.created_at),
        "current_attempt_index": max(run.attempt.index, 0),
        "flow_id": run.flow_id or None,
        "blocking_detail": run.blocking_detail,
    }
    times = present(started_at=run.started_at, completed_at=run.completed_at)
    return Answer(shown | {name: str(at) for name, at in times.items()})


@endpoint("GET", "/v1/executions/{id}/state", Need.READ, classic=True)
async def state(call: Call) -> Answer:
    """Return the public state, as one word."""
    return Answer((await _described(call)).public_state)


@endpoint("GET", "/v1/executions/{id}/result", Need.READ, classic=True)
async def result(call: Call) -> Answer:
    """Return the result of a completed execution, byte for byte."""
    execution_id = call.execution_id
    try:
        found = await call.read(GetResult(execution_id=execution_id))
    except NotFound as error:
        raise execution_not_found(execution_id, "execution result") from error
    if found.public_state is not Public.COMPLETED:
        raise execution_not_found(execution_id, "execution result")
    data = found.result.data if found.result is not None else b""
    return Answer(raw=data, content_type="application/octet-stream")


class WaitpointQuery(Struct, frozen=True):
    """Which page of waitpoints."""

    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


@endpoint("GET", "/v1/executions/{id}/pending-waitpoints", Need.READ, classic=True, query=WaitpointQuery)
async def pending_waitpoints(call: Call) -> Answer:
    """List the open waitpoints of an execution, by id; `after` the last one until there are none."""
    after = path_uuid("after", call.query.after) if call.query.after else ""
    question = ListWaitpoints(execution_id=call.execution_id, after=after, limit=call.query.limit)
    page = await read_list(call, question)
    return Answer([waitpoint(view) for view in page.waitpoints])


@endpoint("GET", "/v1/executions/{id}/waitpoints/{waitpoint_id}/token", Need.ADMIN, classic=True)
async def waitpoint_token(call: Call) -> Answer:
    """Return the token of an open waitpoint: a credential, never cached."""
    execution_id = call.execution_id
    waitpoint_id = path_uuid("waitpoint_id", call.path["waitpoint_id"])
    token: str | None = None
    try:
        token = await call.read(ReadToken(execution_id=execution_id, waitpoint_id=waitpoint_id))
    except FlowFabricError as error:
        if not isinstance(error, NotFound):
            raise
    if token is None:
        raise HttpError(
            404,
            "waitpoint token not found (consumed, expired, or unknown id)",
            "not_found",
            headers=_NO_STORE,
        )
    return Answer({"token": token}, headers=_NO_STORE)
