"""Looking closely at one execution: all of it, what happened, why it waits, how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from flowfabric.engine import every_waitpoint, wait_until_ended
from flowfabric.model.errors import NotFound
from flowfabric.model.limits import MAX_RESULT_BYTES
from flowfabric.model.operations.read import (
    Describe,
    GetExecution,
    GetPayload,
    GetResult,
    ListAttempts,
    ReadHistory,
)
from flowfabric.model.operations.step import ListSteps
from flowfabric.model.operations.suspend_resume import GetSuspension
from flowfabric.model.operations.suspend_waitpoint import WaitpointView
from flowfabric.model.operations.worker_serving import Because
from flowfabric.model.records import Attempt, Execution
from flowfabric.model.state import Eligibility, Phase, Public
from flowfabric.server.access.fences import seen_by
from flowfabric.server.http.call import Response, ServerCall, ServerStopping, encode
from flowfabric.server.http.cursors import read_cursor, write_cursor
from flowfabric.server.http.listing import read_list
from flowfabric.server.http.routing import serves
from flowfabric.wire import payload
from flowfabric.wire.errors import HttpError
from flowfabric.wire.read import (
    DETAIL,
    EXPLAIN,
    HISTORY,
    RESULT,
    SHOW,
    STATE,
    WAIT,
    Ending,
    ExecutionView,
    ExplanationView,
    HistoryView,
)
from flowfabric.wire.views import (
    AttemptView,
    Detail,
    EventView,
    Failure,
    StateVector,
    StepOfDetail,
    SuspensionOfDetail,
    WaitpointOfDetail,
)

_EVENTS = "event"
MAX_RESULTS_BYTES: Final = 4 * MAX_RESULT_BYTES
"""How many bytes of results the attempts of one detail may show."""
MAX_DETAILS_BYTES: Final = 262_144
"""How many characters of details its attempts may show, and how many its waitpoints."""


async def _described(call: ServerCall) -> Execution:
    execution_id = call.execution_id
    try:
        run = await call.read(GetExecution(execution_id=execution_id))
        if run.lifecycle_phase is Phase.RUNNABLE and run.eligibility_state is Eligibility.NOW:
            return (
                await call.read(Describe(execution_id=execution_id))
            ).run  # as its lane and workers let it
    except NotFound as error:
        raise _not_found(execution_id, "execution") from error
    return run


def _not_found(execution_id: str, what: str) -> HttpError:
    return HttpError(404, f"{what} not found: {execution_id}", "execution_not_found")


@serves(SHOW)
async def show(call: ServerCall) -> Response:
    """Show an execution."""
    run = await _described(call)
    view = ExecutionView.of(
        run,
        state_vector=StateVector.of(run),
        created_at=str(run.created_at),
        current_attempt_index=max(run.attempt.index, 0),
        flow_id=run.flow_id or None,
        started_at=str(run.started_at or ""),
        completed_at=str(run.completed_at or ""),
    )
    return Response(view)


@serves(STATE)
async def state(call: ServerCall) -> Response:
    """Return the public state, as one word."""
    return Response((await _described(call)).public_state)


@serves(RESULT)
async def result(call: ServerCall) -> Response:
    """Return the result of a completed execution, byte for byte."""
    execution_id = call.execution_id
    try:
        found = await call.read(GetResult(execution_id=execution_id))
    except NotFound as error:
        raise _not_found(execution_id, "execution result") from error
    if found.public_state is not Public.COMPLETED:
        raise _not_found(execution_id, "execution result")
    data = found.result.data if found.result is not None else b""
    return Response(raw=data, content_type=RESULT.media)


@serves(DETAIL)
async def detail(call: ServerCall) -> Response:
    """Show everything about an execution; of more than 1000 steps the first, and of steps no results.

    Where attempts or waitpoints have details of more than 256 KiB in all, older attempts and later waitpoints are shown
    without theirs.
    """
    return await call.server.live.read_large(_detail(call, call.execution_id))


async def _detail(call: ServerCall, execution_id: str) -> Response:
    described, stored, attempts, suspension, waitpoints, steps = await asyncio.gather(
        call.read(Describe(execution_id=execution_id)),
        call.read(GetPayload(execution_id=execution_id)),
        call.read(ListAttempts(execution_id=execution_id)),
        call.read(GetSuspension(execution_id=execution_id)),
        every_waitpoint(call.store, execution_id),
        call.read(ListSteps(execution_id=execution_id)),
    )
    described, attempts = seen_by(call.principal, (described, attempts))
    view = Detail.of(
        described.run,
        **payload.shown("input", stored.input, described.run.payload_encoding),
        policy=payload.embedded(stored.policy_json) if stored.policy_json else {},
        attempts=await _attempts(call, execution_id, attempts),
        suspension=SuspensionOfDetail.of(suspension) if suspension is not None else None,
        waitpoints=_waitpoints(waitpoints),
        steps=tuple(map(StepOfDetail.of, steps.steps)),
        because=described.because,
    )
    return Response(raw=encode(view))


def _waitpoints(found: Sequence[WaitpointView]) -> tuple[WaitpointOfDetail, ...]:
    shown: list[WaitpointOfDetail] = []
    room = MAX_DETAILS_BYTES
    for view in found:
        room -= len(view.details)
        kept = view if room >= 0 else replace(view, details="")
        shown.append(WaitpointOfDetail.of(kept, reason=view.reason_code))
    return tuple(shown)


async def _attempts(
    call: ServerCall, execution_id: str, attempts: Sequence[Attempt]
) -> tuple[AttemptView, ...]:
    """Show attempts; those that completed keep their results, also after a replay, of which the newest are shown."""
    shown: list[AttemptView] = []
    room, details = MAX_RESULTS_BYTES, MAX_DETAILS_BYTES
    for each in reversed(attempts):
        details -= len(each.failure_detail)
        result: dict[str, Any] = {}
        if each.ended_by == "complete" and room > 0:
            found = (await call.read(GetResult(execution_id=execution_id, attempt_index=each.index))).result
            if found is not None and len(found.data) <= room:
                result = payload.shown("result", found.data, found.encoding)
            room -= len(found.data) if found is not None else 0
        shown.append(AttemptView.of(each if details >= 0 else replace(each, failure_detail=""), **result))
    return tuple(reversed(shown))


@serves(HISTORY)
async def history(call: ServerCall) -> Response:
    """Return what happened to an execution, in order."""
    after = read_cursor(_EVENTS, call.query.cursor)
    question = ReadHistory(execution_id=call.execution_id, after=after, limit=call.query.limit)
    page = seen_by(call.principal, await read_list(call, question))
    events = tuple(map(EventView.of, page.events))
    return Response(HistoryView(events=events, next_cursor=write_cursor(_EVENTS, page.next)))


@serves(EXPLAIN)
async def explain(call: ServerCall) -> Response:
    """Say why an execution does not run now."""
    described = await call.read(Describe(execution_id=call.execution_id))
    run, because = described.run, described.because
    if run.lifecycle_phase is Phase.TERMINAL:
        because = (Because("ended", f"it has ended: {run.public_state}", {}),)
    view = ExplanationView(
        execution_id=run.execution_id,
        public_state=run.public_state,
        runnable=_unhindered(run),
        because=because,
        live_workers=described.live_workers,
        lane_paused=bool(described.lane is not None and described.lane.paused_at),
    )
    return Response(view)


def _unhindered(run: Execution) -> bool:
    """Whether it runs, or the next worker that asks may take it."""
    if run.lifecycle_phase is Phase.ACTIVE:
        return True
    return run.lifecycle_phase is Phase.RUNNABLE and run.eligibility_state is Eligibility.NOW


@serves(WAIT)
async def wait(call: ServerCall) -> Response:
    """Wait until an execution has ended."""
    execution_id = call.execution_id
    try:
        run = await call.while_connected(wait_until_ended(call.store, execution_id, call.query.timeout_ms))
    except ServerStopping:  # a wait that ends early ends like any other
        run = await wait_until_ended(call.store, execution_id, 0)
    outcome: dict[str, Any] = {}
    if run.public_state is Public.COMPLETED:
        found = (await call.read(GetResult(execution_id=execution_id))).result
        outcome = (
            payload.shown("result", found.data, found.encoding) if found is not None else {"result": None}
        )
    elif run.lifecycle_phase is Phase.TERMINAL:
        reason = run.failure_reason or run.cancellation_reason
        outcome = {"failure": Failure(reason=reason, category=run.failure_category or run.public_state)}
    ended = run.lifecycle_phase is Phase.TERMINAL
    return Response(Ending.of(run, terminal=ended, **outcome))
