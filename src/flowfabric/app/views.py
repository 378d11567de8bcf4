"""A run as its users see it: where it stands, why it does not go on, and what it streams."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from flowfabric.codecs import decode_value
from flowfabric.model.contracts.reads import Because, Description, FrameView
from flowfabric.model.records import Attempt, Execution
from flowfabric.model.state import TERMINAL_STATES, Eligibility, Phase, Public


class Status(Struct, frozen=True):
    """Where a run stands. Times are milliseconds since 1970, 0 while there is none."""

    execution_id: str
    kind: str
    state: Public
    lane: str
    namespace: str
    priority: int
    tags: dict[str, str]
    attempt: int
    """Counts from 0; -1 before the first."""
    retries: int
    worker: str
    """Who works on it now, or worked on it last."""
    progress: int | None
    """Per cent, as the handler says."""
    message: str
    created_at: int
    started_at: int
    ended_at: int
    reason: str
    """Why it failed or was cancelled."""
    category: str

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
    state: Public
    runnable: bool
    """Whether it runs, or the next worker that asks may take it."""
    because: tuple[Because, ...]
    live_workers: int
    lane_paused: bool

    def __str__(self) -> str:
        reasons = "; ".join(each.detail for each in self.because)
        return f"{self.execution_id} is {self.state}" + (f": {reasons}" if reasons else "")


def explanation_of(described: Description) -> Explanation:
    """Say what is known."""
    run = described.run
    because = described.because
    if run.lifecycle_phase is Phase.TERMINAL:
        because = (Because("ended", f"it has ended: {run.public_state}"),)
    free = run.lifecycle_phase is Phase.RUNNABLE and run.eligibility_state is Eligibility.NOW
    return Explanation(
        execution_id=run.execution_id,
        state=run.public_state,
        runnable=free or run.lifecycle_phase is Phase.ACTIVE,
        because=because,
        live_workers=len(described.live_workers),
        lane_paused=bool(described.lane is not None and described.lane.paused_at),
    )


class Frame(Struct, frozen=True):
    """One piece of a run's stream."""

    attempt: int
    id: str
    type: str
    payload: bytes
    encoding: str
    at: int
    correlation_id: str = ""

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


class AttemptStarted(Struct, frozen=True):
    """From here on the stream is that of another attempt: what came before is superseded, unless this is the first."""

    attempt: int
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
        at=frame.ms, correlation_id=frame.correlation_id,
    )  # fmt: skip


def start_of(attempt: Attempt, before: Attempt | None) -> AttemptStarted:
    """Show the beginning of an attempt."""
    reason = attempt.lineage_reason or (before.failure_reason if before is not None else "")
    return AttemptStarted(attempt=attempt.index, kind=attempt.kind, reason=reason)
