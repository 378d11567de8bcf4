"""`ff inspect`, `ff explain`: one execution, closely."""

from __future__ import annotations

import itertools
from typing import Any, Final

import msgspec
from msgspec import Struct

from flowfabric.app.views import explanation_of
from flowfabric.cli.desk import Desk, command
from flowfabric.cli.kinds import published
from flowfabric.cli.listing import show_waitpoints
from flowfabric.cli.notes import waits_for_worker
from flowfabric.cli.screen import printable, printable_lines
from flowfabric.cli.signalling import answers
from flowfabric.engine import every_step, every_waitpoint
from flowfabric.model.kinds import DEFAULT_LANE
from flowfabric.model.limits import MAX_STEP_BYTES_IN_PAGE
from flowfabric.model.operations.read import Describe, Description, GetPayload, GetResult, ListAttempts
from flowfabric.model.operations.step import ListedStep
from flowfabric.model.operations.suspend_resume import GetSuspension
from flowfabric.model.operations.suspend_waitpoint import WaitpointView
from flowfabric.model.operations.worker_serving import NO_WORKER_FOR_KIND
from flowfabric.model.records import Attempt, Execution, Payload, Result, Suspension
from flowfabric.model.state import Blocking, Public
from flowfabric.model.times import moment, since, span
from flowfabric.wire.payload import shown
from flowfabric.wire.views import AttemptView, StateVector, SummaryView, WaitpointOfDetail

_REASONS: Final = ("failure_reason", "failure_category", "cancellation_reason", "progress_message")
LONG: Final = 200
"""Values are cut after so many letters, unless all of it is asked for."""


def add(commands: Any) -> None:
    """Describe the commands."""
    for name, about, work in (
        ("inspect", "show everything about an execution", inspect),
        ("explain", "say why an execution does not go on", explain),
    ):
        parser = command(commands, name, about, work)
        parser.add_argument(
            "id", metavar="ID", help="the execution; its UUID or the beginning of that will do"
        )
        if name == "inspect":
            parser.add_argument("--raw", action="store_true", help="the records as they are stored, as JSON")


class Everything(Struct, frozen=True):
    """All answers about one execution."""

    described: Description
    payload: Payload
    attempts: tuple[Attempt, ...]
    suspension: Suspension | None
    waitpoints: tuple[WaitpointView, ...]
    steps: tuple[ListedStep, ...]
    result: Result | None


async def _ask(desk: Desk, execution_id: str) -> Everything:
    read = desk.store.read
    return Everything(
        described=await read(Describe(execution_id=execution_id)),
        payload=await read(GetPayload(execution_id=execution_id)),
        attempts=await read(ListAttempts(execution_id=execution_id)),
        suspension=await read(GetSuspension(execution_id=execution_id)),
        waitpoints=await every_waitpoint(desk.store, execution_id),
        steps=tuple([each async for each in every_step(desk.store, execution_id, MAX_STEP_BYTES_IN_PAGE)]),
        result=(await read(GetResult(execution_id=execution_id))).result,
    )


async def inspect(desk: Desk) -> int:
    """Show one execution."""
    found = await _ask(desk, await desk.find(desk.given.id))
    if desk.given.raw:
        desk.screen.json(plain(found))
    elif desk.json:
        desk.screen.json(_document(found))
    else:
        _page(desk, found)
    return 0


def plain(value: Any) -> Any:
    """Write a record with the names of its fields; bytes become base64."""
    if isinstance(value, Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def _document(found: Everything) -> dict[str, Any]:
    run = found.described.run
    result = found.result
    head: dict[str, Any] = SummaryView.of(run).to_dict()
    return (
        head
        | {
            "state_vector": StateVector.of(run),
            **shown("input", found.payload.input, run.payload_encoding),
            "attempts": [AttemptView.of(each) for each in found.attempts],
            "steps": [
                {"name": each.name, "at": each.at, "call_index": each.call_index, "size": each.size}
                | (shown("result", each.result, each.encoding) if each.result is not None else {})
                for each in found.steps
            ],
            "waitpoints": [WaitpointOfDetail.of(view, reason=view.reason_code) for view in found.waitpoints],
            "because": [msgspec.structs.asdict(each) for each in found.described.because],
        }
        | (shown("result", result.data, result.encoding) if result is not None else {})
        | {name: text for name in _REASONS if (text := getattr(run, name))}
    )


def _page(desk: Desk, found: Everything) -> None:
    run, now = found.described.run, desk.now()
    desk.screen.pairs(
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
            "progress": f"{run.progress_pct}% {run.progress_message}".strip()
            if run.progress_pct >= 0
            else "",
            "input": _value(found.payload.input),
            "result": _value(found.result.data) if found.result is not None else "",
            "failure": ": ".join(filter(None, (run.failure_category, run.failure_reason))),
            "cancelled": run.cancellation_reason,
            "because": "; ".join(each.detail for each in found.described.because),
        }
    )
    _parts(desk, found, now)


def _parts(desk: Desk, found: Everything, now: int) -> None:
    if found.attempts:
        desk.screen.line("\nattempts")
        rows = [
            (
                str(each.index), each.kind, str(each.life), each.worker_id, since(each.started_at, now),
                span(each.ended_at - each.started_at) if each.ended_at else "", each.failure_reason,
            )
            for each in found.attempts
        ]  # fmt: skip
        desk.screen.table(("", "type", "became", "worker", "started", "took", "failure"), rows, "  ")
        _tracebacks(desk, found.attempts)
    if found.steps:
        desk.screen.line("\nsteps")
        rows_of_steps = [(each.name, since(each.at, now), _result(each)) for each in found.steps]
        desk.screen.table(("name", "stored", "result"), rows_of_steps, "  ")
    if found.waitpoints:
        desk.screen.line("\nwaitpoints")
        show_waitpoints(desk, found.waitpoints, "  ", details=True)


def _tracebacks(desk: Desk, attempts: tuple[Attempt, ...]) -> None:
    """Show the traceback of each failed attempt; one that several attempts in a row share is shown once."""
    for detail, same in itertools.groupby(attempts, key=lambda each: each.failure_detail):
        if detail:
            indexes = [str(each.index) for each in same]
            which = f"attempt {indexes[0]}" + (f" to {indexes[-1]}" if indexes[1:] else "")
            desk.screen.line(f"\ntraceback of {which}")
            for line in detail.splitlines():
                desk.screen.line(f"  {printable(line)}".rstrip())


def _when(at: int, now: int) -> str:
    return f"{moment(at)} ({since(at, now)})" if at else ""


def _worker(run: Execution, now: int) -> str:
    if run.public_state is not Public.ACTIVE:
        return ""
    if waits_for_worker(run):
        return "none, its lease is gone"
    return f"{run.current_worker_instance_id}, lease {since(run.lease_expires_at, now)}"


def _result(step: ListedStep) -> str:
    return f"{step.size} bytes" if step.result is None else _value(step.result)


def _value(data: bytes) -> str:
    """Show bytes as text on one line, if they are text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"{len(data)} bytes"
    return text if len(text) <= LONG else f"{text[:LONG]}… ({len(data)} bytes)"


async def explain(desk: Desk) -> int:
    """Say why one execution does not go on."""
    execution_id = await desk.find(desk.given.id)
    described = await desk.store.read(Describe(execution_id=execution_id))
    told = explanation_of(described)
    if desk.json:
        desk.screen.json(told)
        return 0
    desk.screen.line(f"{told.execution_id} is {desk.screen.state(str(told.state))}")
    for reason in told.because:
        _indented(desk, printable(reason.detail))
    elsewhere = await _other_lane(desk, described)
    if elsewhere:
        _indented(desk, printable(elsewhere))
    if told.state is Public.SUSPENDED:
        for view, line in answers(desk, await every_waitpoint(desk.store, execution_id)):
            if view.message:
                _indented(desk, f"it asks: {printable_lines(view.message)}")
            _indented(desk, f"answer it with `{line}`")
    return 0


def _indented(desk: Desk, text: str) -> None:
    desk.screen.paragraph(text, head="  ", column=2)


async def _other_lane(desk: Desk, described: Description) -> str:
    """Say that nobody takes it from its lane, while its kind is published for another one."""
    run, because = described.run, described.because
    if not waits_for_worker(run) or not because:
        return ""
    last = because[-1]
    if last.reason != NO_WORKER_FOR_KIND and (last.reason != Blocking.WORKER or last.data["live_workers"]):
        return ""
    kind = await published(desk, run.execution_kind, run.namespace)
    lane = run.lane_id if kind is None else kind.lane or DEFAULT_LANE
    if lane == run.lane_id:
        return ""
    words = f"{run.execution_kind} is published for lane {lane}, and this run waits on lane {run.lane_id}"
    return f"{words}: cancel it and submit it again, or let a worker serve lane {run.lane_id}, too"
