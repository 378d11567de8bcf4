"""Answers to questions. A view stages nothing: it shows records, or what a store found in its indexes."""

from __future__ import annotations

from typing import Final

from msgspec.structs import asdict

from flowfabric.model.contracts.lease import StepView
from flowfabric.model.contracts.reads import (
    CountExecutions,
    CountLeases,
    DuePage,
    ExecutionPage,
    FeedPage,
    FindExecutions,
    FrameView,
    GetExecution,
    GetPayload,
    GetResult,
    GetStep,
    HistoryPage,
    IdPage,
    LaneView,
    ListAttempts,
    ListedStep,
    ListExecutions,
    ListKids,
    ListLanes,
    ListLeases,
    ListPartition,
    ListQueue,
    ListSteps,
    ListWorkers,
    QueuePage,
    ReadDue,
    ReadFeed,
    ReadHistory,
    ReadStream,
    ReadSummary,
    ResultView,
    StepHead,
    StepPage,
    StreamPage,
    SummaryView,
    TailStream,
)
from flowfabric.model.ids import entry_id, parse_cursor, parse_entry_id
from flowfabric.model.indexes import score
from flowfabric.model.limits import MAX_INT
from flowfabric.model.listing import queue_look, queue_page
from flowfabric.model.machine.steps import first_that_fit, step_view
from flowfabric.model.machine.streams import forgotten
from flowfabric.model.machine.workspace import Workspace, step
from flowfabric.model.records import (
    Attempt,
    Event,
    Execution,
    Frame,
    Lane,
    Payload,
    Result,
    Step,
    Stream,
    Summary,
    Worker,
)
from flowfabric.model.state import Public
from flowfabric.model.tokens import KeyRing, KidList, list_kids

Position = tuple[int, int]
_BEGIN: Final[Position] = (0, 0)
_END: Final[Position] = (MAX_INT, MAX_INT)


# One execution.


@step(GetExecution)
def get_execution(space: Workspace, question: GetExecution) -> Execution:
    """Return the record."""
    return space.execution(question.execution_id)


@step(GetPayload)
def get_payload(space: Workspace, question: GetPayload) -> Payload:
    """Return what the caller sent."""
    run = space.execution(question.execution_id)
    payload: Payload = space.get("payload", run.execution_id)
    return payload


@step(GetResult)
def get_result(space: Workspace, question: GetResult) -> ResultView:
    """Return the result of the present run, or of a named attempt of any run."""
    run = space.execution(question.execution_id)
    index = question.attempt_index
    if index is None:
        if run.public_state is not Public.COMPLETED:
            return ResultView(run.public_state, None)
        index = run.attempt.index
    result: Result | None = space.get("result", run.execution_id, index)
    return ResultView(run.public_state, result)


@step(ListAttempts)
def list_attempts(space: Workspace, question: ListAttempts) -> tuple[Attempt, ...]:
    """Return the attempts that others have followed, which have rows, and the last one inside the execution."""
    run = space.execution(question.execution_id)
    earlier: list[Attempt] = space.children("attempt", run.execution_id)
    return (*earlier, run.attempt) if run.attempt.index >= 0 else ()


@step(ReadHistory)
def read_history(space: Workspace, question: ReadHistory) -> HistoryPage:
    """Return lines of history; line numbers are dense, so the record knows whether more follow."""
    run = space.execution(question.execution_id)
    events: tuple[Event, ...] = space.get("history", run.execution_id, question.after, question.limit)
    full = len(events) == question.limit and events[-1].seq < run.event_count
    return HistoryPage(events, events[-1].seq if full else 0)


@step(ListSteps)
def list_steps(space: Workspace, question: ListSteps) -> StepPage:
    """Return a page of stored steps; one more than was asked for says that there is a next page.

    Results are read for those alone whose results fit.
    """
    run = space.execution(question.execution_id)
    heads: tuple[StepHead, ...] = space.get("steps", run.execution_id, *question.after, question.limit + 1)
    shown = heads[: question.limit]
    fitting = first_that_fit(shown, question.max_bytes) if question.max_bytes else []
    found: list[Step | None] = space.several("step", ((run.execution_id, each.name) for each in fitting))
    results = {each.name: each.result for each in found if each is not None}
    last = shown[-1] if len(heads) > len(shown) else None
    return StepPage(
        tuple(ListedStep(**asdict(each), result=results.get(each.name)) for each in shown),
        None if last is None else (last.call_index, last.name),
    )


@step(GetStep)
def get_step(space: Workspace, question: GetStep) -> StepView | None:
    """Return one stored step."""
    run = space.execution(question.execution_id)
    found: Step | None = space.get("step", run.execution_id, question.step_name)
    return None if found is None else step_view(found)


# Streams.


@step(ReadStream)
def read_stream(space: Workspace, question: ReadStream) -> StreamPage:
    """Return frames between two positions, both inclusive."""
    low = _position("from", question.from_)
    high = _position("to", question.to, upper=True)
    return _frames(space, question, low, high)


@step(TailStream)
def tail_stream(space: Workspace, question: TailStream) -> StreamPage:
    """Return the frames after a position."""
    ms, seq = parse_entry_id("after", question.after)
    return _frames(space, question, (ms, seq + 1), _END)


def _position(field: str, cursor: str, *, upper: bool = False) -> Position:
    kind, position = parse_cursor(field, cursor, upper=upper)
    if position is not None:
        return position
    return _BEGIN if kind == "start" else _END


def _frames(space: Workspace, question: ReadStream | TailStream, low: Position, high: Position) -> StreamPage:
    run = space.execution(question.execution_id)
    place = (run.execution_id, question.attempt_index)
    stream: Stream | None = space.get("stream", *place)
    if stream is None:
        return StreamPage(())
    frames: tuple[Frame, ...] = ()
    if not forgotten(stream, space.now):
        frames = space.get("frames", *place, *low, *high, question.count)
    shown = tuple(
        FrameView(entry_id(frame.ms, frame.seq), frame)
        for frame in frames
        if not (question.exclude_best_effort and frame.mode == "best_effort")
    )
    last = entry_id(frames[-1].ms, frames[-1].seq) if frames else ""
    return StreamPage(shown, stream.closed_at, stream.closed_reason, last, stream.leases)


@step(ReadSummary)
def read_summary(space: Workspace, question: ReadSummary) -> SummaryView | None:
    """Return the summary document of one attempt."""
    run = space.execution(question.execution_id)
    found: Summary | None = space.get("summary", run.execution_id, question.attempt_index)
    if found is None:
        return None
    return SummaryView(
        found.document, found.doc_version, found.patch_kind, found.last_updated_ms, found.first_applied_ms
    )


# Everything.


@step(ListExecutions)
def list_executions(space: Workspace, question: ListExecutions) -> ExecutionPage:
    """Return a page of executions as the store found them."""
    runs, cursor = space.get("executions", question)
    return ExecutionPage(runs, cursor)


@step(ListQueue)
def list_queue(space: Workspace, question: ListQueue) -> QueuePage:
    """Return a page of what may be claimed; one more than may be looked at says that there is a next page."""
    runs: tuple[Execution, ...] = space.get(
        "queue", question.lane_id, *question.after, queue_look(question) + 1
    )
    shown, last = queue_page(question, runs)
    return QueuePage(shown, None if last is None else (score(last), last.execution_id))


@step(ListPartition)
def list_partition(space: Workspace, question: ListPartition) -> IdPage:
    """Return ids of one partition."""
    ids, cursor = space.get("partition", question)
    return IdPage(ids, cursor)


@step(FindExecutions)
def find_executions(space: Workspace, question: FindExecutions) -> tuple[str, ...]:
    """Return ids by the beginning of their UUID."""
    ids: tuple[str, ...] = space.get("found", question)
    return ids


@step(ReadFeed)
def read_feed(space: Workspace, question: ReadFeed) -> FeedPage:
    """Return the history of everything; at its end, the next place to look is where the reader stands."""
    entries = space.get("feed", question.after, question.limit)
    floor, last = space.get("feed_bounds")
    return FeedPage(entries, entries[-1].position if entries else question.after, floor, last)


@step(ListLanes)
def list_lanes(space: Workspace, question: ListLanes) -> tuple[LaneView, ...]:
    """Return a page of lanes with their counts and whether they are paused."""
    rows = space.get("lanes", question.namespace, question.after, question.limit)
    lanes: list[Lane | None] = space.several("lane", ((lane_id,) for lane_id, _, _ in rows))
    return tuple(
        LaneView(
            lane_id,
            counts,
            oldest_waiting_at,
            lane.paused_at if lane is not None else 0,
            lane.pause_reason if lane is not None else "",
        )
        for (lane_id, counts, oldest_waiting_at), lane in zip(rows, lanes, strict=True)
    )


@step(ListWorkers)
def list_workers(space: Workspace, question: ListWorkers) -> tuple[Worker, ...]:
    """Return a page of the workers that live now."""
    namespace, instance = question.after
    after = (question.namespace or namespace, instance)
    workers: tuple[Worker, ...] = space.get("workers", question.namespace, *after, question.limit)
    return workers


@step(CountExecutions)
def count_executions(space: Workspace, question: CountExecutions) -> tuple[tuple[Public, int], ...]:
    """Return the counts that are kept."""
    return tuple(sorted((state, n) for state, n in space.get("totals", question.namespace) if n))


@step(CountLeases)
def count_leases(space: Workspace, question: CountLeases) -> tuple[int, ...]:
    """Return how many entries the indexes of leases have."""
    asked = ((each, question.namespace) for each in question.worker_instance_ids)
    return tuple(space.several("held", asked))


@step(ListLeases)
def list_leases(space: Workspace, question: ListLeases) -> tuple[str, ...]:
    """Return what a worker instance holds, from whichever claims."""
    return tuple(space.get("leases", question.worker_instance_id, None))


@step(ReadDue)
def read_due(space: Workspace, question: ReadDue) -> DuePage:
    """Return the executions for which something is due."""
    before = space.now if question.before is None else question.before
    runs, next_due_at = space.get("due", before, question.limit)
    return DuePage(runs, next_due_at)


@step(ListKids)
def list_key_ids(space: Workspace, _: ListKids) -> KidList:
    """Return the names of the keys that verify tokens now."""
    ring: KeyRing | None = space.get("keyring")
    return list_kids(ring or KeyRing(), space.now)
