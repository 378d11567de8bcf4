"""Looking closer at one execution: all of it, what happened, why it waits, how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Final

from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from flowfabric.engine import every_waitpoint, wait_until_ended
from flowfabric.model.limits import MAX_RESULT_BYTES
from flowfabric.model.operations.read import (
    Describe,
    Description,
    GetPayload,
    GetResult,
    ListAttempts,
    ReadHistory,
)
from flowfabric.model.operations.step import ListSteps
from flowfabric.model.operations.suspend_resume import GetSuspension
from flowfabric.model.operations.suspend_waitpoint import WaitpointView
from flowfabric.model.records import Attempt, Execution, Suspension
from flowfabric.model.state import Eligibility, Ownership, Phase, Public
from flowfabric.server.call import Answer, Call, Stopping, encode
from flowfabric.server.cursors import read_cursor, write_cursor
from flowfabric.server.fences import seen_by
from flowfabric.server.listing import read_list
from flowfabric.server.render import embedded, json_or_base64
from flowfabric.server.roles import Need
from flowfabric.server.routing import endpoint
from flowfabric.server.shapes import attempt, event, present, summary, vector, waitpoint

_EVENTS = "event"
MAX_RESULTS_BYTES: Final = 4 * MAX_RESULT_BYTES
"""How many bytes of results the attempts of one detail may show."""
MAX_DETAILS_BYTES: Final = 262_144
"""How many characters of details its attempts may show, and how many its waitpoints."""


@endpoint("GET", "/v1/executions/{id}/detail", Need.READ)
async def detail(call: Call) -> Answer:
    """Show everything about an execution; of more than 1000 steps the first, and of steps no results.

    Where attempts or waitpoints have details of more than 256 KiB in all, older attempts and later waitpoints are shown
    without theirs.
    """
    return await call.server.live.read_large(_detail(call, call.execution_id))


async def _detail(call: Call, execution_id: str) -> Answer:
    described, payload, attempts, suspension, waitpoints, steps = await asyncio.gather(
        call.read(Describe(execution_id=execution_id)),
        call.read(GetPayload(execution_id=execution_id)),
        call.read(ListAttempts(execution_id=execution_id)),
        call.read(GetSuspension(execution_id=execution_id)),
        every_waitpoint(call.store, execution_id),
        call.read(ListSteps(execution_id=execution_id)),
    )
    described, attempts = seen_by(call.principal, (described, attempts))
    run = described.run
    shown = _record(run) | {
        **json_or_base64("input", payload.input, run.payload_encoding),
        "policy": embedded(payload.policy_json) if payload.policy_json else {},
        "attempts": await _attempts(call, execution_id, attempts),
        "suspension": _suspension(suspension) if suspension is not None else None,
        "waitpoints": _waitpoints(waitpoints),
        "steps": [
            {"name": step.name, "at": step.at, "call_index": step.call_index, "size": step.size}
            for step in steps.steps
        ],
        "because": _because(described),
    }
    return Answer(raw=encode(shown))


def _waitpoints(found: Sequence[WaitpointView]) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = []
    room = MAX_DETAILS_BYTES
    for view in found:
        room -= len(view.details)
        shown.append(
            waitpoint(view if room >= 0 else replace(view, details="")) | {"reason": view.reason_code}
        )
    return shown


async def _attempts(call: Call, execution_id: str, attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """Show attempts; those that completed keep their results, also after a replay, of which the newest are shown."""
    shown: list[dict[str, Any]] = []
    room, details = MAX_RESULTS_BYTES, MAX_DETAILS_BYTES
    for each in reversed(attempts):
        details -= len(each.failure_detail)
        shape = attempt(each if details >= 0 else replace(each, failure_detail=""))
        if each.ended_by == "complete" and room > 0:
            found = (await call.read(GetResult(execution_id=execution_id, attempt_index=each.index))).result
            if found is not None and len(found.data) <= room:
                shape |= json_or_base64("result", found.data, found.encoding)
            room -= len(found.data) if found is not None else 0
        shown.append(shape)
    return shown[::-1]


def _record(run: Execution) -> dict[str, Any]:
    shown: dict[str, Any] = summary(run) | {
        "state_vector": vector(run),
        "lease": _lease(run),
        "flow_id": run.flow_id or None,
        "creator_identity": run.creator_identity,
        "required_capabilities": run.required_capabilities,
        "fairness_key": run.fairness_key,
        "partition": run.partition,
        "counts": {
            "attempts": run.total_attempt_count,
            "retries": run.retry_count,
            "replays": run.replay_count,
            "reclaims": run.lease_reclaim_count,
            "signals": run.signal_count,
            "steps": run.step_count,
            "events": run.event_count,
        },
        "dependencies": [],
        "budgets": list(run.budget_ids),
        "quotas": list(run.quota_ids),
        "usage": {},
        "failure": _failure(run),
        "blocking_detail": run.blocking_detail,
        "last_transition_at": run.last_transition_at,
        "retention_ms": run.retention_ms,
    }
    return shown | present(
        payload_encoding=run.payload_encoding, result_encoding=run.result_encoding,
        delay_until=run.delay_until, execution_deadline_at=run.execution_deadline_at,
        attempt_deadline_at=run.attempt_deadline_at, blocked_at=run.blocked_at, paused_at=run.paused_at,
        progress_message=run.progress_message, progress_updated_at=run.progress_updated_at,
        cancellation_reason=run.cancellation_reason, cancelled_by=run.cancelled_by,
        lease_end=run.lease_end,
    )  # fmt: skip


def _lease(run: Execution) -> dict[str, Any] | None:
    if run.ownership_state is not Ownership.LEASED:
        return None
    lease = {"lease_id": run.current_lease_id, "lease_epoch": run.current_lease_epoch}
    return (lease if run.current_lease_id else {}) | {
        "worker_id": run.current_worker_id,
        "worker_instance_id": run.current_worker_instance_id,
        "acquired_at": run.lease_acquired_at,
        "expires_at": run.lease_expires_at,
        "last_renewed_at": run.lease_last_renewed_at or None,
    }


def _failure(run: Execution) -> dict[str, Any] | None:
    if not run.failure_reason and not run.failure_category:
        return None
    return {"reason": run.failure_reason, "category": run.failure_category}


def _suspension(found: Suspension) -> dict[str, Any]:
    return {
        "suspension_id": found.suspension_id,
        "attempt_index": found.attempt_index,
        "waitpoint_id": found.waitpoint_id,
        "waitpoint_key": found.waitpoint_key,
        "reason_code": found.reason_code,
        "requested_by": found.requested_by,
        "created_at": found.created_at,
        "open": not found.closed_at,
    } | present(
        timeout_at=found.timeout_at, timeout_behavior=found.timeout_behavior, step_name=found.step_name,
        satisfied_at=found.satisfied_at, closed_at=found.closed_at, close_reason=found.close_reason,
        continuation_metadata_pointer=found.continuation_metadata_pointer,
    )  # fmt: skip


class HistoryQuery(Struct, frozen=True):
    """Which page of the history."""

    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100
    cursor: str = ""


@endpoint("GET", "/v1/executions/{id}/history", Need.READ, query=HistoryQuery)
async def history(call: Call) -> Answer:
    """Return what happened to an execution, in order."""
    after = read_cursor(_EVENTS, call.query.cursor)
    question = ReadHistory(execution_id=call.execution_id, after=after, limit=call.query.limit)
    page = seen_by(call.principal, await read_list(call, question))
    events = [event(line) for line in page.events]
    return Answer({"events": events, "next_cursor": write_cursor(_EVENTS, page.next)})


@endpoint("GET", "/v1/executions/{id}/explain", Need.READ)
async def explain(call: Call) -> Answer:
    """Say why an execution does not run now."""
    described = await call.read(Describe(execution_id=call.execution_id))
    run = described.run
    because = _because(described)
    if run.lifecycle_phase is Phase.TERMINAL:
        because = [{"reason": "ended", "detail": f"it has ended: {run.public_state}", "data": {}}]
    return Answer(
        {
            "execution_id": run.execution_id,
            "public_state": run.public_state,
            "runnable": _unhindered(run),
            "because": because,
            "live_workers": described.live_workers,
            "lane_paused": bool(described.lane is not None and described.lane.paused_at),
        }
    )


def _unhindered(run: Execution) -> bool:
    """Whether it runs, or the next worker that asks may take it."""
    if run.lifecycle_phase is Phase.ACTIVE:
        return True
    return run.lifecycle_phase is Phase.RUNNABLE and run.eligibility_state is Eligibility.NOW


def _because(described: Description) -> list[dict[str, Any]]:
    return [asdict(each) for each in described.because]


class WaitQuery(Struct, frozen=True):
    """How long to wait for the end."""

    timeout_ms: Annotated[int, Meta(ge=0, le=30_000)] = 0


@endpoint("GET", "/v1/executions/{id}/wait", Need.READ, query=WaitQuery)
async def wait(call: Call) -> Answer:
    """Wait until an execution has ended."""
    execution_id = call.execution_id
    try:
        run = await call.while_connected(wait_until_ended(call.store, execution_id, call.query.timeout_ms))
    except Stopping:  # a wait that ends early ends like any other
        run = await wait_until_ended(call.store, execution_id, 0)
    shown: dict[str, Any] = {
        "execution_id": execution_id,
        "public_state": run.public_state,
        "terminal": run.lifecycle_phase is Phase.TERMINAL,
    }
    if run.public_state is Public.COMPLETED:
        found = (await call.read(GetResult(execution_id=execution_id))).result
        shown |= (
            json_or_base64("result", found.data, found.encoding) if found is not None else {"result": None}
        )
    elif run.lifecycle_phase is Phase.TERMINAL:
        reason = run.failure_reason or run.cancellation_reason
        shown["failure"] = {"reason": reason, "category": run.failure_category or run.public_state}
    return Answer(shown)
