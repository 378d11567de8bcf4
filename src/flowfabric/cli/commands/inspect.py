"""`ff inspect`: show everything about an execution."""

from __future__ import annotations

import itertools
from typing import Any, Final

import msgspec
from msgspec import Struct

from flowfabric.cli.support.execution_notes import waits_for_worker
from flowfabric.cli.support.options import add_id
from flowfabric.cli.support.session import CommandSession, add_store_command
from flowfabric.cli.support.text import printable
from flowfabric.cli.support.waitpoints import show_waitpoints
from flowfabric.engine import every_step, every_waitpoint
from flowfabric.model.limits import MAX_STEP_BYTES_IN_PAGE
from flowfabric.model.operations.read import Describe, Description, GetPayload, GetResult, ListAttempts
from flowfabric.model.operations.step import ListedStep
from flowfabric.model.operations.suspend_resume import GetSuspension
from flowfabric.model.operations.suspend_waitpoint import WaitpointView
from flowfabric.model.records import Attempt, Execution, Payload, Result, Suspension
from flowfabric.model.state import Public
from flowfabric.model.times import moment, since, span
from flowfabric.wire.payload import shown
from flowfabric.wire.views import AttemptView, StateVector, SummaryView, WaitpointOfDetail

_REASONS: Final = ("failure_reason", "failure_category", "cancellation_reason", "progress_message")
MAX_VALUE_LENGTH: Final = 200
"""Longer values are cut."""


def add(commands: Any) -> None:
    """Add the parser of `ff inspect`."""
    parser = add_store_command(commands, "inspect", "show everything about an execution", inspect)
    add_id(parser)
    parser.add_argument("--raw", action="store_true", help="the records as they are stored, as JSON")


class ExecutionDetails(Struct, frozen=True):
    """Everything that a store knows about one execution."""

    described: Description
    payload: Payload
    attempts: tuple[Attempt, ...]
    suspension: Suspension | None
    waitpoints: tuple[WaitpointView, ...]
    steps: tuple[ListedStep, ...]
    result: Result | None


async def _read(session: CommandSession, execution_id: str) -> ExecutionDetails:
    store, read = session.store, session.store.read
    return ExecutionDetails(
        described=await read(Describe(execution_id=execution_id)),
        payload=await read(GetPayload(execution_id=execution_id)),
        attempts=await read(ListAttempts(execution_id=execution_id)),
        suspension=await read(GetSuspension(execution_id=execution_id)),
        waitpoints=await every_waitpoint(store, execution_id),
        steps=tuple([each async for each in every_step(store, execution_id, MAX_STEP_BYTES_IN_PAGE)]),
        result=(await read(GetResult(execution_id=execution_id))).result,
    )


async def inspect(session: CommandSession) -> int:
    """Show one execution."""
    details = await _read(session, await session.find(session.given.id))
    if session.given.raw:
        session.output.json(_raw(details))
    elif session.json:
        session.output.json(_document(details))
    else:
        _show_execution(session, details)
        _show_parts(session, details)
    return 0


def _raw(value: Any) -> Any:
    """Return a record as a mapping of its field names; JSON writes bytes as base64."""
    if isinstance(value, Struct):
        return {name: _raw(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, list | tuple):
        return [_raw(each) for each in value]
    return value


def _document(details: ExecutionDetails) -> dict[str, Any]:
    run, result = details.described.run, details.result
    head: dict[str, Any] = SummaryView.of(run).to_dict()
    return (
        head
        | {
            "state_vector": StateVector.of(run),
            **shown("input", details.payload.input, run.payload_encoding),
            "attempts": [AttemptView.of(each) for each in details.attempts],
            "steps": [_step_document(each) for each in details.steps],
            "waitpoints": [
                WaitpointOfDetail.of(view, reason=view.reason_code) for view in details.waitpoints
            ],
            "because": [msgspec.structs.asdict(each) for each in details.described.because],
        }
        | (shown("result", result.data, result.encoding) if result is not None else {})
        | {name: text for name in _REASONS if (text := getattr(run, name))}
    )


def _step_document(step: ListedStep) -> dict[str, Any]:
    fields = {"name": step.name, "at": step.at, "call_index": step.call_index, "size": step.size}
    return fields | ({} if step.result is None else shown("result", step.result, step.encoding))


def _show_execution(session: CommandSession, details: ExecutionDetails) -> None:
    run, now = details.described.run, session.now()
    progress = f"{run.progress_pct}% {run.progress_message}".strip() if run.progress_pct >= 0 else ""
    session.output.pairs(
        {
            "id": run.execution_id,
            "kind": run.execution_kind,
            "state": str(run.public_state),
            "lane": run.lane_id,
            "namespace": run.namespace,
            "priority": str(run.priority),
            "tags": ", ".join(f"{key}={value}" for key, value in run.tags),
            "created": _when(run.created_at, now),
            "started": _when(run.started_at, now),
            "ended": _when(run.completed_at, now),
            "due": _when(run.delay_until if run.public_state is Public.DELAYED else 0, now),
            "worker": _worker(run, now),
            "progress": progress,
            "input": _text(details.payload.input),
            "result": _text(details.result.data) if details.result is not None else "",
            "failure": ": ".join(filter(None, (run.failure_category, run.failure_reason))),
            "cancelled": run.cancellation_reason,
            "because": "; ".join(each.detail for each in details.described.because),
        }
    )


def _show_parts(session: CommandSession, details: ExecutionDetails) -> None:
    output, now = session.output, session.now()
    if details.attempts:
        output.line("\nattempts")
        attempts = [_attempt_row(each, now) for each in details.attempts]
        output.table(("", "type", "became", "worker", "started", "took", "failure"), attempts, "  ")
        _show_tracebacks(session, details.attempts)
    if details.steps:
        output.line("\nsteps")
        steps = [(each.name, since(each.at, now), _step_result(each)) for each in details.steps]
        output.table(("name", "stored", "result"), steps, "  ")
    if details.waitpoints:
        output.line("\nwaitpoints")
        show_waitpoints(session, details.waitpoints, "  ", with_details=True)


def _attempt_row(attempt: Attempt, now: int) -> tuple[str, ...]:
    return (
        str(attempt.index),
        attempt.kind,
        str(attempt.life),
        attempt.worker_id,
        since(attempt.started_at, now),
        span(attempt.ended_at - attempt.started_at) if attempt.ended_at else "",
        attempt.failure_reason,
    )


def _show_tracebacks(session: CommandSession, attempts: tuple[Attempt, ...]) -> None:
    """Print the traceback of each failed attempt; consecutive attempts with the same one share it."""
    for detail, same in itertools.groupby(attempts, key=lambda each: each.failure_detail):
        if detail:
            indexes = [str(each.index) for each in same]
            which = f"attempt {indexes[0]}" + (f" to {indexes[-1]}" if indexes[1:] else "")
            session.output.line(f"\ntraceback of {which}")
            for line in detail.splitlines():
                session.output.line(f"  {printable(line)}".rstrip())


def _when(at: int, now: int) -> str:
    return f"{moment(at)} ({since(at, now)})" if at else ""


def _worker(run: Execution, now: int) -> str:
    if run.public_state is not Public.ACTIVE:
        return ""
    if waits_for_worker(run):
        return "none, its lease is gone"
    return f"{run.current_worker_instance_id}, lease {since(run.lease_expires_at, now)}"


def _step_result(step: ListedStep) -> str:
    return f"{step.size} bytes" if step.result is None else _text(step.result)


def _text(data: bytes) -> str:
    """Return bytes as text on one line, or their size if they are not text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"{len(data)} bytes"
    if len(text) <= MAX_VALUE_LENGTH:
        return text
    return f"{text[:MAX_VALUE_LENGTH]}… ({len(data)} bytes)"
