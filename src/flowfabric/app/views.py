"""What a run shows its users: status, explanation, and the items of its stream."""

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
    """The status of a run. Times are milliseconds since 1970; 0 means not yet."""

    execution_id: str
    """The id of the run."""
    kind: str
    """The kind of its task: `review`, or `review@2` for version 2."""
    state: Public
    """`waiting`, `delayed`, `active`, `suspended`, `completed`, `failed`, `cancelled`, `expired`, …"""
    lane: str
    """The lane in which it waits for a worker."""
    namespace: str
    """The namespace of the app that submitted it."""
    priority: int
    """From 0 to 9000."""
    tags: dict[str, str]
    """The tags to find it by."""
    attempt: int
    """The number of the current attempt, from 0; -1 before the first."""
    retries: int
    """How many failed attempts were retried."""
    worker: str
    """The worker instance that runs it now, or ran it last."""
    progress: int | None
    """The progress that the handler reported, in per cent."""
    message: str
    """The message that the handler reported with its progress."""
    created_at: int
    """When it was submitted."""
    started_at: int
    """When its first attempt began."""
    ended_at: int
    """When it ended."""
    reason: str
    """Why it failed or was cancelled."""
    category: str
    """The kind of failure: `handler_error`, `timeout`, `invalid_input`, …"""

    @property
    def ended(self) -> bool:
        """Whether the run has ended."""
        return self.state in TERMINAL_STATES


def status_of(run: Execution) -> Status:
    """Return the status of an execution."""
    return Status(
        execution_id=run.execution_id,
        kind=run.execution_kind,
        state=run.public_state,
        lane=run.lane_id,
        namespace=run.namespace,
        priority=run.priority,
        tags=dict(run.tags),
        attempt=run.attempt.index,
        retries=run.retry_count,
        worker=run.current_worker_instance_id or run.attempt.worker_instance_id,
        progress=run.progress_pct if run.progress_pct >= 0 else None,
        message=run.progress_message,
        created_at=run.created_at,
        started_at=run.started_at,
        ended_at=run.completed_at,
        reason=run.failure_reason or run.cancellation_reason,
        category=run.failure_category,
    )


class Explanation(Struct, frozen=True):
    """Why a run makes no progress, as far as the engine knows; `str` gives one line."""

    execution_id: str
    """The id of the run."""
    state: Public
    """Its public state."""
    runnable: bool
    """Whether it runs, or can be claimed now."""
    because: tuple[Because, ...]
    """What it waits for; each item has a `reason` for programs and a `detail` for people."""
    live_workers: int
    """How many workers of its lane have sent a heartbeat recently."""
    lane_paused: bool
    """Whether its lane is paused."""

    def __str__(self) -> str:
        reasons = "; ".join(each.detail for each in self.because)
        return f"{self.execution_id} is {self.state}" + (f": {reasons}" if reasons else "")


def explanation_of(described: Description) -> Explanation:
    """Return the explanation of a described execution."""
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
    """One frame of the stream of a run."""

    attempt: int
    """The attempt that emitted it, from 0."""
    id: str
    """Its id in the stream of that attempt."""
    type: str
    """The frame type that the handler gave it."""
    payload: bytes
    """The payload as it is stored."""
    encoding: str
    """`utf8` for text, `json` for values, `bytes` for bytes, or the name of a codec."""
    at: int
    """When it was emitted, in milliseconds since 1970."""
    correlation_id: str = ""
    """The correlation id that the handler gave it."""
    lease_epoch: int = 0
    """The epoch of the lease under which it was emitted; it grows each time the handler runs again."""
    step: str = ""
    """The durable step in which it was emitted; empty outside of steps."""

    @property
    def position(self) -> str:
        """Where to resume reading: `run.stream(after=frame.position)`."""
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
    """Frames that are no longer valid because the handler runs again and emits again: remove them from the screen.

    It precedes the first of the frames that replace them. Frames that were emitted inside a stored step stay valid,
    because the handler does not run that step again.
    """

    attempt: int
    """The attempt that emitted them, from 0."""
    lease_epoch: int
    """The epoch of the lease under which they were emitted."""
    first: str
    """The id of the first of them; `start` if all earlier attempts are superseded too (after a replay)."""
    last: str
    """The id of the last of them; `end` if all earlier attempts are superseded too (after a replay)."""
    by_epoch: int
    """The epoch of the lease whose frames replace them."""
    kept_steps: tuple[str, ...]
    """Frames that were emitted inside these steps stay valid."""
    position: str
    """Where to resume reading."""

    def covers(self, frame: Frame) -> bool:
        """Return True if the frame is one of them."""
        if frame.step in self.kept_steps:
            return False
        if self.first == "start":
            return frame.attempt <= self.attempt
        first, id_, last = (parse_entry_id("id", text) for text in (self.first, frame.id, self.last))
        return frame.attempt == self.attempt and first <= id_ <= last


class AttemptStarted(Struct, frozen=True):
    """The stream continues with another attempt; a `Superseded` before it says which frames are no longer valid."""

    attempt: int
    """The number of the attempt, from 0."""
    kind: str = ""
    """`initial`, `retry`, `reclaim` or `replay`."""
    reason: str = ""
    """Why there is an attempt after the first."""

    @property
    def position(self) -> str:
        """Where to resume reading: at the first frame of this attempt."""
        return f"{self.attempt}.0-0"


def frame_of(view: FrameView, attempt: int) -> Frame:
    """Return the public view of a stored frame."""
    frame = view.frame
    return Frame(
        attempt=attempt,
        id=view.entry_id,
        type=frame.frame_type,
        payload=frame.payload,
        encoding=frame.encoding,
        at=frame.ms,
        correlation_id=frame.correlation_id,
        lease_epoch=frame.lease_epoch,
        step=frame.step,
    )


def superseded_of(found: model.Superseded, position: str) -> Superseded:
    """Return the public view of superseded frames."""
    return Superseded(
        attempt=found.attempt_index,
        lease_epoch=found.lease_epoch,
        first=found.first,
        last=found.last,
        by_epoch=found.by_epoch,
        kept_steps=found.kept_steps,
        position=position,
    )


def start_of(attempt: Attempt, before: Attempt | None) -> AttemptStarted:
    """Return the stream item for the start of an attempt."""
    reason = attempt.lineage_reason or (before.failure_reason if before is not None else "")
    return AttemptStarted(attempt=attempt.index, kind=attempt.kind, reason=reason)
