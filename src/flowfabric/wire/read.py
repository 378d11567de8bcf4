"""Reading executions: lists, one execution closely, its history, its end; and live streams of what changes."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import UNSET, Meta, Raw, UnsetType

from flowfabric.model.ids import Partitions
from flowfabric.model.operations.read import (
    Describe,
    GetExecution,
    GetPayload,
    GetResult,
    ListAttempts,
    ReadHistory,
)
from flowfabric.model.operations.read_list import (
    CountExecutions,
    FindExecutions,
    ListExecutions,
    ListPartition,
    ListQueue,
    ReadFeed,
)
from flowfabric.model.operations.suspend_resume import GetSuspension
from flowfabric.model.operations.worker_serving import Because
from flowfabric.model.state import Public
from flowfabric.wire.answers import View
from flowfabric.wire.examples import ID, NOW
from flowfabric.wire.fields import U16, U64, Body, Ms
from flowfabric.wire.rights import Right
from flowfabric.wire.route import LARGE, RUN, route
from flowfabric.wire.views import Detail, EventView, Failure, StateVector, SummaryView

MAX_TOPICS: Final = 500
EVENTS: Final = "text/event-stream"
_STREAM: Final = ((200, "Messages until the reader leaves."), (429, "Too many streams are open."))


class NamesQuery(Body, frozen=True):
    """Which page of a list that is ordered by names."""

    limit: Annotated[int, Meta(ge=1, le=1_000)] = 1_000
    cursor: str = ""


class PageQuery(Body, frozen=True):
    """Which page of a list."""

    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100
    cursor: str = ""


class WaitpointQuery(Body, frozen=True):
    """Which page of waitpoints."""

    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


class ListQuery(Body, frozen=True):
    """Which executions, in which order, and which page of them."""

    REPEATABLE: ClassVar[frozenset[str]] = frozenset({"state", "tag"})

    partition: Annotated[U16, Meta(description="ids of this partition only")] | None = None
    cursor: str = ""
    limit: U64 = 50
    lane: str = ""
    state: tuple[str, ...] = ()
    namespace: str = ""
    kind: str = ""
    flow_id: str = ""
    tag: tuple[str, ...] = ()
    created_after: Ms = 0
    created_before: Ms = 0
    order: Literal["newest", "oldest", "queue"] = "newest"


class ExecutionList(View, frozen=True, kw_only=True):
    """Executions, or the ids of one partition."""

    executions: tuple[SummaryView | str, ...]
    next_cursor: str | None


LIST = route(
    "list_executions", "GET", "/v1/executions", Right.READ, "List executions of all partitions, or the ids of one.",
    questions=(ListExecutions, ListQueue, ListPartition, FindExecutions), query=ListQuery, answer=ExecutionList,
    limit=LARGE, bound=True,
    examples={
        200: {
            "executions": [
                {
                    "execution_id": ID, "namespace": "default", "lane_id": "default", "execution_kind": "resize",
                    "public_state": "waiting", "priority": 10, "created_at": NOW, "attempt_index": 0, "tags": {},
                    "blocking_reason": "waiting_for_worker",
                }
            ],
            "next_cursor": None,
        }
    },
)  # fmt: skip


class ExecutionView(View, frozen=True, kw_only=True):
    """An execution. Times are text: see `flowfabric.wire.classic`."""

    execution_id: str
    namespace: str
    lane_id: str
    execution_kind: str
    priority: int
    state_vector: StateVector
    public_state: Public
    created_at: str
    current_attempt_index: int
    flow_id: str | None
    blocking_detail: str
    started_at: str = ""
    completed_at: str = ""


SHOW = route(
    "show", "GET", RUN, Right.READ, "Show an execution.",
    questions=(Describe, GetExecution), answer=ExecutionView, classic=True,
)  # fmt: skip
STATE = route(
    "state", "GET", f"{RUN}/state", Right.READ, "Return the public state, as one word.",
    answer=Public, classic=True, examples={200: "waiting"},
)  # fmt: skip
RESULT = route(
    "result", "GET", f"{RUN}/result", Right.READ, "Return the result of a completed execution, byte for byte.",
    questions=(GetResult,), media="application/octet-stream", classic=True,
)  # fmt: skip
DETAIL = route(
    "detail",
    "GET",
    f"{RUN}/detail",
    Right.READ,
    "Show everything about an execution; of more than 1000 steps the first, and of steps no results.",
    questions=(GetPayload, ListAttempts, GetSuspension),
    answer=Detail,
)


class HistoryView(View, frozen=True, kw_only=True):
    """What happened to an execution, in order."""

    events: tuple[EventView, ...]
    next_cursor: str | None


HISTORY = route(
    "history", "GET", f"{RUN}/history", Right.READ, "Return what happened to an execution, in order.",
    questions=(ReadHistory,), query=PageQuery, answer=HistoryView,
)  # fmt: skip


class ExplanationView(View, frozen=True, kw_only=True):
    """Why an execution does not run now."""

    execution_id: str
    public_state: Public
    runnable: bool
    because: tuple[Because, ...]
    live_workers: int
    lane_paused: bool


EXPLAIN = route(
    "explain", "GET", f"{RUN}/explain", Right.READ, "Say why an execution does not run now.", answer=ExplanationView,
    examples={
        200: {
            "execution_id": ID, "runnable": False, "public_state": "waiting",
            "because": [
                {
                    "reason": "waiting_for_capable_worker", "detail": "needs gpu; 2 workers live, none has it",
                    "data": {"required": ["gpu"], "missing": ["gpu"], "lane": "default", "live_workers": 2},
                }
            ],
            "live_workers": 2, "lane_paused": False,
        }
    },
)  # fmt: skip


class WaitQuery(Body, frozen=True):
    """How long to wait for the end."""

    timeout_ms: Annotated[int, Meta(ge=0, le=30_000)] = 0


class Ending(View, frozen=True, kw_only=True):
    """Where an execution stands, and how it ended."""

    execution_id: str
    public_state: Public
    terminal: bool
    result: Raw | UnsetType | None = UNSET
    result_base64: str | UnsetType = UNSET
    failure: Failure | UnsetType = UNSET


WAIT = route(
    "wait", "GET", f"{RUN}/wait", Right.READ, "Wait until an execution has ended.", query=WaitQuery, answer=Ending,
    examples={200: {"execution_id": ID, "public_state": "completed", "terminal": True, "result": {"ok": True}}},
)  # fmt: skip


class Stats(View, frozen=True, kw_only=True):
    """Executions by state, and how busy this server was in the last minute."""

    counts: dict[str, int]
    total: int
    rates: dict[str, Any]
    backend: str
    partitions: Partitions
    version: str
    now: int
    uptime_ms: int
    uptime_seconds: float


STATS = route(
    "stats",
    "GET",
    "/v1/stats",
    Right.READ,
    "Count executions by state, and say how busy this server was in the last minute.",
    questions=(CountExecutions,),
    answer=Stats,
    bound=True,
)


class EventsQuery(Body, frozen=True):
    """Where to go on."""

    last_event_id: str = ""
    """The id of the last message that was seen; the header `Last-Event-ID` counts more."""


EXECUTION_EVENTS = route(
    "execution_events",
    "GET",
    f"{RUN}/events",
    Right.READ,
    "Follow one execution: states, attempts, frames and progress, from its beginning or from an id, to its end.",
    query=EventsQuery,
    media=EVENTS,
    statuses=(*_STREAM, (204, "It has ended, and its end was told before.")),
)
"""A `superseded` event names the frames before it that no longer count, because the handler runs again: those of
`attempt_index` from `from` to `to`, except those whose `step` is one of `kept_steps`."""


class FeedQuery(Body, frozen=True):
    """Which changes to show; what is not given is not filtered."""

    lane: str = ""
    namespace: str = ""
    flow: str = ""
    kind: str = ""
    last_event_id: str = ""
    """The id of the last message that was seen; none: what happens from now on."""


FEED = route(
    "feed", "GET", "/v1/feed", Right.READ, "Follow the state changes of everything, from now on or from an id.",
    questions=(ReadFeed,), query=FeedQuery, media=EVENTS, bound=True, statuses=_STREAM,
)  # fmt: skip


class TopicsBody(Body, frozen=True):
    """What to listen to: `lane:<lane>`, `execution:<id>`, `worker:<instance>` or `feed`."""

    topics: Annotated[tuple[str, ...], Meta(min_length=1, max_length=MAX_TOPICS)]


WAKEUPS = route(
    "wakeups", "POST", "/v1/wakeups", Right.READ,
    "Be told on which topics something may have changed; `listening` comes first, then `wake` with its topics.",
    body=TopicsBody, media=EVENTS, bound=True, statuses=_STREAM, example={"topics": ["lane:default", "feed"]},
)  # fmt: skip
