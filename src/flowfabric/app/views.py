"""A run as its users see it: where it stands, why it does not go on, and what it streams."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from flowfabric.codecs import decode_value
from flowfabric.model import superseded as model
from flowfabric.model.ids import parse_entry_id
from flowfabric.model.operations.read import Description
from flowfabric.model.operations.stream import FrameView
from flowfabric.model.operations.worker_serving import Because
from flowfabric.model.records import Attempt, Execution
from flowfabric.model.state import TERMINAL_STATES, Eligibility, Phase, Public


class Status(Struct, frozen=True):
    """Where a run stands. Times are milliseconds since 1970, 0 while there is none."""

    execution_id: str
    """The id of the run."""
    kind: str
    """The name of its task, with its version from the second one on."""
    state: Public
    """`waiting`, `delayed`, `active`, `suspended`, `completed`, `failed`, `cancelled`, `expired`, …"""
    lane: str
    """The queue that it came through."""
    namespace: str
    """The namespace of the app that submitted it."""
    priority: int
    """From 0 to 9000."""
    tags: dict[str, str]
    """What it can be found by."""
    attempt: int
    """Counts from 0; -1 before the first."""
    retries: int
    """How many attempts have failed and were tried again."""
    worker: str
    """Who works on it now, or worked on it last."""
    progress: int | None
    """Per cent, as the handler says."""
    message: str
    """What it does, as the handler says."""
    created_at: int
    """When it was submitted."""
    started_at: int
    """When its first attempt began."""
    ended_at: int
    """When it ended."""
    reason: str
    """Why it failed or was cancelled."""
    category: str
    """What kind of failure it was: `handler_error`, `timeout`, `invalid_input`, …"""

    @property
    def ended(self) -> bool:
        """Whether nothing more happens by itself."""
        return self.state in TERMINAL_STATES


def status_of(run: Execution) -> Status:
    """Show a record."""
    return Status(
        execution_id=run.execution_id, kind=run.execution_kind, state=run.public_state, lane=run.lane_id,
        namespace=run.namespace, priority=run.priority, tags=dict(run.tags), attempt=run.attempt.index,
        retries=run.retry_count, worker=run.current_worker_instance_id or run.attempt.worker_instance_id,
        progress=run.progress_pct if run.progress_pct >= 0 else None, message=run.progress_message,
        created_at=run.created_at, started_at=run.started_at, ended_at=run.completed_at,
        reason=run.failure_reason or run.cancellation_reason, category=run.failure_category,
    )  # fmt: skip


class Explanation(Struct, frozen=True):
    """Why a run does not go on, as far as the engine knows; as text it is one line."""

    execution_id: str
    """The id of the run."""
    state: Public
    """Where it stands."""
    runnable: bool
    """Whether it runs, or the next worker that asks may take it."""
    because: tuple[Because, ...]
    """What it waits for; each has a `reason` for programs and a `detail` for people."""
    live_workers: int
    """How many workers of its lane give signs of life."""
    lane_paused: bool
    """Whether its lane gives out no work."""

    def __str__(self) -> str:
        reasons = "; ".join(each.detail for each in self.because)
        return f"{self.execution_id} is {self.state}" + (f": {reasons}" if reasons else "")


def explanation_of(described: Description) -> Explanation:
    """Say what is known."""
    run = described.run
    because = described.because
    if run.lifecycle_phase is Phase.TERMINAL:
        why = run.failure_reason or run.cancellation_reason
        because = (Because("ended", f"it has ended: {run.public_state}" + (f", {why}" if why else "")),)
    free = run.lifecycle_phase is Phase.RUNNABLE and run.eligibility_state is Eligibility.NOW
    return Explanation(
        execution_id=run.execution_id,
        state=run.public_state,
        runnable=free or run.lifecycle_phase is Phase.ACTIVE,
        because=because,
        live_workers=described.live_workers,
        lane_paused=bool(described.lane is not None and described.lane.paused_at),
    )


class Frame(Struct, frozen=True):
    """One piece of a run's stream."""

    attempt: int
    """Which attempt wrote it, from 0."""
    id: str
    """Its place in the stream of that attempt."""
    type: str
    """What the handler called it."""
    payload: bytes
    """What was emitted, as it is stored."""
    encoding: str
    """`utf8` for text, `json` for values, `bytes` for bytes, or the name of a codec."""
    at: int
    """When it was emitted, in milliseconds since 1970."""
    correlation_id: str = ""
    """What the handler says that it belongs to."""
    lease_epoch: int = 0
    """The lease under which it was emitted; it grows each time the handler runs again."""
    step: str = ""
    """The durable step in which it was emitted; empty: outside of any."""

    @property
    def position(self) -> str:
        """Where a later reader goes on: `run.stream(after=frame.position)`."""
        return f"{self.attempt}.{self.id}"

    @property
    def text(self) -> str:
        """The payload as text."""
        return self.payload.decode()

    @property
    def data(self) -> Any:
        """The payload as JSON."""
        return decode_value(self.payload, "json")


class Superseded(Struct, frozen=True):
    """Frames that count no more, because the handler runs again and emits anew: take them off the screen.

    It comes before the first of the frames that replace them. What was emitted inside a stored step stays, because the
    handler passes that step.
    """

    attempt: int
    """Which attempt emitted them, from 0."""
    lease_epoch: int
    """The lease under which they were emitted."""
    first: str
    """The id of the first of them; `start` if all earlier attempts are superseded, too (after a replay)."""
    last: str
    """The id of the last of them; `end` if all earlier attempts are superseded, too (after a replay)."""
    by_epoch: int
    """The lease that replaces them."""
    kept_steps: tuple[str, ...]
    """What was emitted inside these steps stays."""
    position: str
    """Where a later reader goes on."""

    def covers(self, frame: Frame) -> bool:
        """Whether a frame that was shown is one of them."""
        if frame.step in self.kept_steps:
            return False
        if self.first == "start":
            return frame.attempt <= self.attempt
        first, id_, last = (parse_entry_id("id", text) for text in (self.first, frame.id, self.last))
        return frame.attempt == self.attempt and first <= id_ <= last


class AttemptStarted(Struct, frozen=True):
    """From here on the stream is that of another attempt; a `Superseded` before it says what counts no more."""

    attempt: int
    """Counts from 0."""
    kind: str = ""
    """`initial`, `retry`, `reclaim` or `replay`."""
    reason: str = ""
    """Why there is an attempt after the first."""

    @property
    def position(self) -> str:
        """Where a later reader goes on: at the first frame of this attempt."""
        return f"{self.attempt}.0-0"


def frame_of(view: FrameView, attempt: int) -> Frame:
    """Show a stored frame."""
    frame = view.frame
    return Frame(
        attempt=attempt, id=view.entry_id, type=frame.frame_type, payload=frame.payload, encoding=frame.encoding,
        at=frame.ms, correlation_id=frame.correlation_id, lease_epoch=frame.lease_epoch, step=frame.step,
    )  # fmt: skip


def superseded_of(found: model.Superseded, position: str) -> Superseded:
    """Show what is superseded."""
    return Superseded(
        attempt=found.attempt_index, lease_epoch=found.lease_epoch, first=found.first, last=found.last,
        by_epoch=found.by_epoch, kept_steps=found.kept_steps, position=position,
    )  # fmt: skip


def start_of(attempt: Attempt, before: Attempt | None) -> AttemptStarted:
    """Show the beginning of an attempt."""
    reason = attempt.lineage_reason or (before.failure_reason if before is not None else "")
    return AttemptStarted(attempt=attempt.index, kind=attempt.kind, reason=reason)
