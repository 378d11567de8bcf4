"""Questions: what can be read. A question is a command that changes nothing."""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct

from flowfabric.model import checks
from flowfabric.model.contracts.base import Command, ExecutionCommand, Need
from flowfabric.model.contracts.lease import SignalView, StepView
from flowfabric.model.errors import invalid
from flowfabric.model.ids import (
    FLOW,
    MAX_PARTITIONS,
    check_uuid,
    check_uuid_prefix,
    parse_cursor,
    parse_entry_id,
    parse_execution_id,
    partition_key,
)
from flowfabric.model.limits import FRAME_READ_MAX, MAX_INT, MAX_NAME_BYTES, MAX_STEP_BYTES_IN_PAGE
from flowfabric.model.records import (
    Attempt,
    Event,
    Execution,
    Frame,
    Lane,
    LeaseStart,
    Payload,
    Result,
    Suspension,
    Worker,
)
from flowfabric.model.state import Public
from flowfabric.model.tokens import KidList

R_co = TypeVar("R_co", covariant=True)
PAGE_MAX = 1_000


class Question(Command[R_co], frozen=True, kw_only=True):
    """Base of everything that only reads."""


class ExecutionQuestion(ExecutionCommand[R_co], Question[R_co], frozen=True, kw_only=True):
    """A question about one execution; refused with `execution_not_found` when there is none."""


Facts = dict[str, str | int | tuple[str, ...]]


class Because(Struct, frozen=True):
    """One reason why an execution does not run now, in a word, in a sentence and as data."""

    reason: str
    detail: str
    data: Facts = {}
    """What the sentence says, for programs: names and numbers."""


class Description(Struct, frozen=True):
    """An execution as users see it: its record, and what its lane and the living workers add to it."""

    run: Execution
    """As stored, except that eligibility and blocking reason show a paused lane or a missing worker."""
    because: tuple[Because, ...]
    """Empty when it runs or has ended."""
    lane: Lane | None
    live_workers: int = 0
    """How many workers of its lane live and may take work of its namespace, as far as they were looked at."""


class Describe(ExecutionQuestion[Description], frozen=True, kw_only=True):
    """Show one execution."""


class GetExecution(ExecutionQuestion[Execution], frozen=True, kw_only=True):
    """Return the record of one execution as it is stored, without asking what its lane and the workers make of it."""


class GetPayload(ExecutionQuestion[Payload], frozen=True, kw_only=True):
    """Return the input and the policy as they were sent."""


class ResultView(Struct, frozen=True):
    """The result of the present run; `result` is none while there is none to give."""

    public_state: Public
    result: Result | None


class GetResult(ExecutionQuestion[ResultView], frozen=True, kw_only=True):
    """Return the result of a completed execution."""

    attempt_index: int | None = None
    """None: the attempt that completed the present run."""

    def check(self) -> None:
        """Check the index."""
        super().check()
        if self.attempt_index is not None:
            checks.integer("attempt_index", self.attempt_index, 0, MAX_INT)


class ListAttempts(ExecutionQuestion[tuple[Attempt, ...]], frozen=True, kw_only=True):
    """Return all attempts, the running one last."""


class Page(Struct, frozen=True):
    """Base of pages; `next` is 0 or empty on the last one."""


class HistoryPage(Page, frozen=True):
    """Lines of history in order."""

    events: tuple[Event, ...]
    next: int


def _limit(value: int, high: int = PAGE_MAX) -> None:
    checks.integer("limit", value, 1, high)


def _cursor(after: int) -> None:
    checks.integer("after", after, 0, MAX_INT)


class _Onward(Question[R_co], frozen=True, kw_only=True):
    after: int = 0
    limit: int = 100

    def check(self) -> None:
        """Check cursor and limit."""
        super().check()
        _cursor(self.after)
        _limit(self.limit)


class ReadHistory(ExecutionQuestion[HistoryPage], frozen=True, kw_only=True):
    """Return history after a line number."""

    after: int = 0
    limit: int = 100

    def check(self) -> None:
        """Check cursor and limit."""
        super().check()
        _cursor(self.after)
        _limit(self.limit)


class GetSuspension(ExecutionQuestion[Suspension | None], frozen=True, kw_only=True):
    """Return the current or last suspension."""


class WaitpointView(Struct, frozen=True):
    """An open waitpoint, without its token."""

    execution_id: str
    waitpoint_id: str
    waitpoint_key: str
    state: str
    required_signal_names: tuple[str, ...]
    created_at: int
    activated_at: int
    expires_at: int
    token_kid: str
    token_fingerprint: str
    reason_code: str
    message: str = ""
    """What the handler asks of whoever is to answer."""
    details: str = ""
    """More about it: a JSON object as text, or empty."""


class WaitpointPage(Page, frozen=True):
    """Open waitpoints in the order of their ids."""

    waitpoints: tuple[WaitpointView, ...]
    next: str


class ListWaitpoints(ExecutionQuestion[WaitpointPage], frozen=True, kw_only=True):
    """Return the open waitpoints of one execution."""

    after: str = ""
    limit: int = 100
    """Clamped to 1..1000."""

    def check(self) -> None:
        """Check the cursor."""
        super().check()
        if self.after:
            check_uuid("after", self.after)
        checks.integer("limit", self.limit, -MAX_INT, MAX_INT)


class ReadToken(ExecutionQuestion[str | None], frozen=True, kw_only=True):
    """Return the raw token of an open waitpoint, to trusted code only."""

    waitpoint_id: str

    def check(self) -> None:
        """Check the id."""
        super().check()
        check_uuid("waitpoint_id", self.waitpoint_id)


class ObserveSignals(ExecutionQuestion[tuple[SignalView, ...]], frozen=True, kw_only=True):
    """Return the signals that satisfied the last suspension of the current attempt."""


class FrameView(Struct, frozen=True):
    """A frame and its id."""

    entry_id: str
    frame: Frame


class StreamPage(Page, frozen=True):
    """Frames in order, and whether the stream has ended."""

    frames: tuple[FrameView, ...]
    closed_at: int = 0
    closed_reason: str = ""
    last: str = ""
    """The last entry that was looked at, shown or not: where a tail goes on. Empty when there was none."""
    leases: tuple[LeaseStart, ...] = ()
    """Which leases appended frames, and the id of the first frame of each, oldest first."""


class _StreamQuestion(ExecutionQuestion[StreamPage], frozen=True, kw_only=True):
    attempt_index: int
    count: int = 50
    exclude_best_effort: bool = False

    def check(self) -> None:
        """Check index and count."""
        super().check()
        checks.integer("attempt_index", self.attempt_index, 0, MAX_INT)
        if self.count < 1:
            raise invalid("count", "count_limit must be >= 1")
        if self.count > FRAME_READ_MAX:
            raise invalid("count", "count_limit_exceeds_hard_cap")


class ReadStream(_StreamQuestion, frozen=True, kw_only=True):
    """Return frames between two cursors, both inclusive."""

    from_: str = "start"
    to: str = "end"

    def check(self) -> None:
        """Check the cursors."""
        super().check()
        parse_cursor("from", self.from_)
        parse_cursor("to", self.to, upper=True)


class TailStream(_StreamQuestion, frozen=True, kw_only=True):
    """Return frames after a cursor, exclusive, without waiting."""

    after: str = "0-0"

    def check(self) -> None:
        """Check the cursor: a concrete id."""
        super().check()
        parse_entry_id("after", self.after)


class SummaryView(Struct, frozen=True):
    """The summary document of one attempt."""

    document: bytes
    version: int
    patch_kind: str
    last_updated_ms: int
    first_applied_ms: int


class ReadSummary(ExecutionQuestion[SummaryView | None], frozen=True, kw_only=True):
    """Return the summary of one attempt, or nothing."""

    attempt_index: int

    def check(self) -> None:
        """Check the index."""
        super().check()
        checks.integer("attempt_index", self.attempt_index, 0, MAX_INT)


class StepHead(Struct, frozen=True):
    """A stored step without its result."""

    name: str
    call_index: int
    at: int
    encoding: str
    size: int
    """How many bytes its result has."""


class ListedStep(StepHead, frozen=True):
    """A stored step in a list; `result` is none where it did not fit."""

    result: bytes | None = None


class StepPage(Page, frozen=True):
    """Steps in the order of their calls; `next` is the call and the name of the last one, or nothing."""

    steps: tuple[ListedStep, ...]
    next: tuple[int, str] | None


class ListSteps(ExecutionQuestion[StepPage], frozen=True, kw_only=True):
    """Return stored steps in the order of their calls, the first results of the page with them."""

    after: tuple[int, str] = (-1, "")
    """Call and name of the last step that was seen."""
    limit: int = 1_000
    max_bytes: int = 0
    """How many bytes of results may come along; 0 for none."""

    def check(self) -> None:
        """Check cursor, limit and size."""
        super().check()
        if len(self.after) != 2:
            raise invalid("after", "give the call and the name of the last step that was seen")
        checks.integer("after", self.after[0], -1, MAX_INT)
        checks.text("after", self.after[1], max_bytes=MAX_NAME_BYTES, empty=True)
        _limit(self.limit)
        checks.integer("max_bytes", self.max_bytes, 0, MAX_STEP_BYTES_IN_PAGE)


class GetStep(ExecutionQuestion[StepView | None], frozen=True, kw_only=True):
    """Return one stored step, or nothing."""

    step_name: str

    def check(self) -> None:
        """Check the name."""
        super().check()
        checks.name("step_name", self.step_name)


class ExecutionPage(Page, frozen=True):
    """Executions in order; `next` is the cursor of the next page."""

    runs: tuple[Execution, ...]
    next: int


class ListExecutions(Question[ExecutionPage], frozen=True, kw_only=True):
    """List executions by creation, driven by one index: flow, else the first tag, else lane and states, else creation.

    Each of them exists for one namespace, too, where states alone drive a list. Further filters look at up to ten rows
    for each one asked, so a page may be short while there is a next one.
    """

    lane_id: str = ""
    states: tuple[Public, ...] = ()
    eligible: bool = False
    """Besides those states: whatever may be claimed at once."""
    namespace: str = ""
    execution_kind: str = ""
    flow_id: str = ""
    tags: tuple[tuple[str, str], ...] = ()
    created_after: int = 0
    created_before: int = 0
    newest_first: bool = True
    limit: int = 100
    after: int = 0
    """The cursor of the page before."""

    def check(self) -> None:
        """Check filters and limit."""
        super().check()
        _limit(self.limit)
        if self.lane_id:
            checks.lane(self.lane_id)
        if self.flow_id:
            check_uuid("flow_id", self.flow_id)
        for field in ("namespace", "execution_kind"):
            checks.name(field, getattr(self, field), empty=True)
        if self.tags != checks.tags(dict(self.tags)):
            raise invalid("tags", "send each key once, in sorted order")
        for field in ("created_after", "created_before", "after"):
            checks.integer(field, getattr(self, field), 0, MAX_INT)

    def looked_at(self) -> tuple[Public, ...]:
        """The states in which anything wanted can be; empty means all."""
        if self.eligible and Public.WAITING not in self.states:
            return (*self.states, Public.WAITING)
        return self.states


class QueuePage(Page, frozen=True):
    """Claimable executions in the order of claims; `next` is the score and id of the last one, or nothing."""

    runs: tuple[Execution, ...]
    next: tuple[int, str] | None


class ListQueue(Question[QueuePage], frozen=True, kw_only=True):
    """List what may be claimed on a lane, the next first, whoever may take it and whether or not the lane is paused."""

    lane_id: str
    namespace: str = ""
    """Only of this one; ten rows for each one asked are looked at, so a page may be short while there is a next one."""
    after: tuple[int, str] = (-MAX_INT, "")
    """Score and id of the last execution that was seen, or looked at."""
    limit: int = 100

    def check(self) -> None:
        """Check lane, cursor and limit."""
        super().check()
        checks.lane(self.lane_id)
        checks.name("namespace", self.namespace, empty=True)
        if len(self.after) != 2:
            raise invalid("after", "give the score and the id of the last execution that was seen")
        checks.integer("after", self.after[0], -MAX_INT, MAX_INT)
        checks.text("after", self.after[1], max_bytes=MAX_NAME_BYTES, empty=True)
        _limit(self.limit)


class IdPage(Page, frozen=True):
    """Ids of executions in the order of their text."""

    ids: tuple[str, ...]
    next: str


class ListPartition(Question[IdPage], frozen=True, kw_only=True):
    """List the ids of one partition."""

    partition: int
    namespace: str = ""
    """Only of this one."""
    after: str = ""
    limit: int = 50

    def check(self) -> None:
        """Check partition, cursor and limit."""
        super().check()
        checks.integer("partition", self.partition, 0, MAX_PARTITIONS)
        checks.name("namespace", self.namespace, empty=True)
        _limit(self.limit)
        if self.after:
            parse_execution_id(self.after)

    def bounds(self) -> tuple[str, str]:
        """Between which texts, both exclusive, the ids lie."""
        low = partition_key(FLOW, self.partition)
        return max(f"{low}:", self.after), f"{low};"  # the character after the colon


class FindExecutions(Question[tuple[str, ...]], frozen=True, kw_only=True):
    """Return the ids of executions whose UUID begins with some text, in the order of their UUIDs."""

    prefix: str
    namespace: str = ""
    """Only of this one."""
    limit: int = 10

    def check(self) -> None:
        """Check text, namespace and limit."""
        super().check()
        check_uuid_prefix("prefix", self.prefix)
        checks.name("namespace", self.namespace, empty=True)
        _limit(self.limit)


class InboxPage(Page, frozen=True):
    """Open waitpoints of all executions, oldest first."""

    waitpoints: tuple[WaitpointView, ...]
    next: int


class ReadInbox(_Onward[InboxPage], frozen=True, kw_only=True):
    """Return what waits for a signal, anywhere."""

    namespace: str = ""
    """Only of this one."""

    def check(self) -> None:
        """Check cursor, limit and namespace."""
        super().check()
        checks.name("namespace", self.namespace, empty=True)


class FeedEntry(Struct, frozen=True):
    """One line of the history of everything."""

    position: int
    execution_id: str
    namespace: str
    lane_id: str
    execution_kind: str
    flow_id: str
    event: Event


class FeedPage(Page, frozen=True):
    """Lines in the order in which they were written; `next` is where to go on."""

    entries: tuple[FeedEntry, ...]
    next: int
    floor: int = 0
    """Lines up to this position may be missing; all after it are there."""
    last: int = 0
    """The position of the newest line."""


class ReadFeed(_Onward[FeedPage], frozen=True, kw_only=True):
    """Return the history of all executions after a position."""


class LaneView(Struct, frozen=True):
    """One lane: how much is in which state, and since when the oldest waits."""

    lane_id: str
    counts: tuple[tuple[Public, int], ...]
    oldest_waiting_at: int
    paused_at: int
    pause_reason: str


class _Names(Question[R_co], frozen=True, kw_only=True):
    namespace: str = ""
    """Only what belongs to this one; empty: everything."""
    limit: int = PAGE_MAX

    def check(self) -> None:
        """Check name and limit."""
        super().check()
        checks.name("namespace", self.namespace, empty=True)
        _limit(self.limit)


class ListLanes(_Names[tuple[LaneView, ...]], frozen=True, kw_only=True):
    """Return lanes that were ever used, by name; of one namespace without saying since when the oldest waits."""

    after: str = ""
    """The last lane that was seen."""

    def check(self) -> None:
        """Check the cursor."""
        super().check()
        checks.text("after", self.after, max_bytes=MAX_NAME_BYTES, empty=True)


class ListWorkers(_Names[tuple[Worker, ...]], frozen=True, kw_only=True):
    """Return workers that live now, by namespace and instance."""

    after: tuple[str, str] = ("", "")
    """Namespace and instance of the last worker that was seen; in one namespace only the instance counts."""

    def check(self) -> None:
        """Check the cursor."""
        super().check()
        if len(self.after) != 2:
            raise invalid("after", "give the namespace and the instance of the last worker that was seen")
        for part in self.after:
            checks.text("after", part, max_bytes=MAX_NAME_BYTES, empty=True)


class CountExecutions(Question[tuple[tuple[Public, int], ...]], frozen=True, kw_only=True):
    """Return how many executions are in which state; states without any are left out."""

    namespace: str = ""
    """Only of this one; empty: of all."""

    def check(self) -> None:
        """Check the name."""
        super().check()
        checks.name("namespace", self.namespace, empty=True)


class CountLeases(Question[tuple[int, ...]], frozen=True, kw_only=True):
    """Return how many leases each of some worker instances holds."""

    worker_instance_ids: tuple[str, ...]
    namespace: str = ""
    """Only leases of work of this one; empty: of all."""

    def check(self) -> None:
        """Check the names."""
        super().check()
        checks.name("namespace", self.namespace, empty=True)
        if len(self.worker_instance_ids) > PAGE_MAX:
            raise invalid("worker_instance_ids", f"name at most {PAGE_MAX}")
        for each in self.worker_instance_ids:
            checks.worker("worker_instance_ids", each)


class ListLeases(Question[tuple[str, ...]], frozen=True, kw_only=True):
    """Return the executions that a worker instance holds."""

    worker_instance_id: str

    def check(self) -> None:
        """Check the name."""
        super().check()
        checks.worker("worker_instance_id", self.worker_instance_id)


class DuePage(Page, frozen=True):
    """Executions for which something is due, the earliest first, and when the next thing is."""

    runs: tuple[Execution, ...]
    next_due_at: int
    """The earliest time after `before`; 0 when there is none."""


class ReadDue(Question[DuePage], frozen=True, kw_only=True):
    """Return what is due at a time."""

    before: int | None = None
    """None: now."""
    limit: int = 100

    def check(self) -> None:
        """Check time and limit."""
        super().check()
        if self.before is not None:
            checks.integer("before", self.before, 0, MAX_INT)
        checks.integer("limit", self.limit, 1, MAX_INT)


class ListKids(Question[KidList], frozen=True, kw_only=True):
    """Return the key ids that verify tokens now."""

    def needs(self) -> tuple[Need, ...]:
        """The keys."""
        return (("keyring", ()),)


class FindClaimable(Question[tuple[str, ...]], frozen=True, kw_only=True):
    """Return the eligible executions of a lane that a worker may run, the best first, without taking them."""

    lane_id: str
    capabilities: tuple[str, ...] = ()
    namespace: str = ""
    """Only work of this namespace; empty means of any."""
    limit: int = 1

    def check(self) -> None:
        """Check every field."""
        super().check()
        checks.lane(self.lane_id)
        checks.worker_capabilities(self.capabilities)
        if self.namespace:
            checks.name("namespace", self.namespace)
        _limit(self.limit)

    def needs(self) -> tuple[Need, ...]:
        """The lane and its routes."""
        return (("lane", (self.lane_id,)), ("routes", (self.lane_id,)))
