"""List, find and count executions, and read the feed of everything that happens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from flowfabric.model import checks
from flowfabric.model.command import PAGE_MAX, CursorQuestion, Page, Question, check_limit
from flowfabric.model.errors import invalid
from flowfabric.model.ids import (
    FLOW,
    MAX_PARTITIONS,
    check_uuid,
    check_uuid_prefix,
    parse_execution_id,
    partition_key,
)
from flowfabric.model.lane_order import lane_position
from flowfabric.model.limits import MAX_INT, MAX_NAME_BYTES
from flowfabric.model.machine.group import step
from flowfabric.model.machine.workspace import Workspace
from flowfabric.model.record_kinds import IndexQuery
from flowfabric.model.records import Event, Execution
from flowfabric.model.state import Eligibility, Phase, Public


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
        check_limit(self.limit)
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


EXECUTIONS: Final[IndexQuery[tuple[tuple[Execution, ...], int]]] = IndexQuery("executions")


@step(ListExecutions)
def list_executions(space: Workspace, question: ListExecutions) -> ExecutionPage:
    """Return a page of executions as the store found them."""
    runs, cursor = space.get(EXECUTIONS, question)
    return ExecutionPage(runs, cursor)


LOOK_AHEAD: Final = 10
"""Rows looked at for each row asked for; a page may be short while there is a next one."""


def driven(question: ListExecutions, run: Execution) -> bool:
    """Whether the index that drives the list holds this execution; only such rows count as looked at.

    A namespace has indexes of its own: by flow, by tag and by state. A lane is filtered there, since an index of lanes
    and states for each namespace would be written at every change of state.
    """
    if question.namespace and run.namespace != question.namespace:
        return False
    if question.flow_id:
        return run.flow_id == question.flow_id
    if question.tags:
        return question.tags[0] in run.tags
    if question.lane_id and not question.namespace and run.lane_id != question.lane_id:
        return False
    states = question.looked_at() if question.lane_id or question.namespace else ()
    return not states or run.public_state in states


def matches(question: ListExecutions, run: Execution) -> bool:
    """Whether every filter lets it through."""
    return (
        driven(question, run)
        and (not question.lane_id or run.lane_id == question.lane_id)
        and _in_state(question, run)
        and (not question.execution_kind or run.execution_kind == question.execution_kind)
        and all(tag in run.tags for tag in question.tags)
        and (not question.created_after or run.created_at > question.created_after)
        and (not question.created_before or run.created_at < question.created_before)
    )


def _in_state(question: ListExecutions, run: Execution) -> bool:
    if not question.states and not question.eligible:
        return True
    eligible = run.lifecycle_phase is Phase.RUNNABLE and run.eligibility_state is Eligibility.NOW
    return run.public_state in question.states or (question.eligible and eligible)


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
        check_limit(self.limit)


QUEUE: Final[IndexQuery[tuple[Execution, ...]]] = IndexQuery("queue")


@step(ListQueue)
def list_queue(space: Workspace, question: ListQueue) -> QueuePage:
    """Return a page of what may be claimed; one more than may be looked at says that there is a next page."""
    runs = space.get(QUEUE, question.lane_id, *question.after, queue_look(question) + 1)
    shown, last = queue_page(question, runs)
    return QueuePage(shown, None if last is None else lane_position(last))


def queue_page(
    question: ListQueue, runs: Sequence[Execution]
) -> tuple[tuple[Execution, ...], Execution | None]:
    """Choose a page out of claimable work; what lies behind the last one that was looked at is the next."""
    found: list[Execution] = []
    for seen, run in enumerate(runs):
        if seen == queue_look(question) or len(found) == question.limit:
            return tuple(found), runs[seen - 1]
        if question.namespace in {"", run.namespace}:
            found.append(run)
    return tuple(found), None


def queue_look(question: ListQueue) -> int:
    """How many executions of a queue one page may cost: queues have no index by namespace."""
    most = min(question.limit * LOOK_AHEAD, PAGE_MAX) if question.namespace else 0
    return max(question.limit, most)


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
        check_limit(self.limit)
        if self.after:
            parse_execution_id(self.after)

    def bounds(self) -> tuple[str, str]:
        """Between which texts, both exclusive, the ids lie."""
        low = partition_key(FLOW, self.partition)
        return max(f"{low}:", self.after), f"{low};"  # the character after the colon


PARTITION: Final[IndexQuery[tuple[tuple[str, ...], str]]] = IndexQuery("partition")


@step(ListPartition)
def list_partition(space: Workspace, question: ListPartition) -> IdPage:
    """Return ids of one partition."""
    ids, cursor = space.get(PARTITION, question)
    return IdPage(ids, cursor)


def id_page(question: ListPartition, ids: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Choose a page out of ids; one more than was asked for says that there is a next one."""
    shown = tuple(ids[: question.limit])
    return shown, shown[-1] if len(ids) > len(shown) else ""


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
        check_limit(self.limit)


FOUND: Final[IndexQuery[tuple[str, ...]]] = IndexQuery("found")


@step(FindExecutions)
def find_executions(space: Workspace, question: FindExecutions) -> tuple[str, ...]:
    """Return ids by the beginning of their UUID."""
    return space.get(FOUND, question)


def prefix_bounds(question: FindExecutions, partition: str) -> tuple[str, str]:
    """Return between which texts the wanted ids of a partition, `{fp:24}`, lie: from the first, up to the second."""
    low = f"{partition}:{question.prefix}"
    return low, f"{low}g"  # the letter after the last digit


def found_ids(question: FindExecutions, ids: Iterable[str]) -> tuple[str, ...]:
    """Choose the answer out of ids that were gathered from all partitions."""
    return tuple(sorted(ids, key=lambda each: (each.rpartition(":")[2], each))[: question.limit])


class CountExecutions(Question[tuple[tuple[Public, int], ...]], frozen=True, kw_only=True):
    """Return how many executions are in which state; states without any are left out."""

    namespace: str = ""
    """Only of this one; empty: of all."""

    def check(self) -> None:
        """Check the name."""
        super().check()
        checks.name("namespace", self.namespace, empty=True)


TOTALS: Final[IndexQuery[tuple[tuple[Public, int], ...]]] = IndexQuery("totals")


@step(CountExecutions)
def count_executions(space: Workspace, question: CountExecutions) -> tuple[tuple[Public, int], ...]:
    """Return the counts that are kept."""
    return tuple(sorted((state, n) for state, n in space.get(TOTALS, question.namespace) if n))


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


class ReadFeed(CursorQuestion[FeedPage], frozen=True, kw_only=True):
    """Return the history of all executions after a position."""


FEED: Final[IndexQuery[tuple[FeedEntry, ...]]] = IndexQuery("feed")
FEED_BOUNDS: Final[IndexQuery[tuple[int, int]]] = IndexQuery("feed_bounds")
"""The position below which lines may be gone, and the last one."""


@step(ReadFeed)
def read_feed(space: Workspace, question: ReadFeed) -> FeedPage:
    """Return the history of everything; at its end, the next place to look is where the reader stands."""
    entries = space.get(FEED, question.after, question.limit)
    floor, last = space.get(FEED_BOUNDS)
    return FeedPage(entries, entries[-1].position if entries else question.after, floor, last)
