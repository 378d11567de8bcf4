"""How executions, attempts, waitpoints and history look in answers and in the output of `ff --json`."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, UnsetType, field

from flowfabric.model.operations.suspend_waitpoint import WaitpointView
from flowfabric.model.operations.worker_serving import Because
from flowfabric.model.records import Attempt, Event, Execution, Suspension
from flowfabric.model.state import AttemptState, Blocking, Eligibility, Outcome, Ownership, Phase, Public
from flowfabric.wire.answers import View


class StateVector(View, frozen=True, kw_only=True):
    """The seven words that say where an execution stands."""

    lifecycle_phase: Phase
    ownership_state: Ownership
    eligibility_state: Eligibility
    blocking_reason: Blocking
    terminal_outcome: Outcome
    attempt_state: AttemptState
    public_state: Public


class _Head(View, frozen=True, kw_only=True):
    execution_id: str
    namespace: str
    lane_id: str
    execution_kind: str
    public_state: Public
    priority: int
    created_at: int
    attempt_index: int
    tags: dict[str, str]
    progress_pct: int = -1
    blocking_reason: str = Blocking.NONE
    started_at: int = 0
    completed_at: int = 0

    @classmethod
    def of(cls, source: Any, /, **given: Any) -> Any:
        """Build it from the record of an execution."""
        return super().of(source, attempt_index=max(source.attempt.index, 0), tags=dict(source.tags), **given)


class SummaryView(_Head, frozen=True, kw_only=True):
    """An execution as one row of a list."""

    flow_id: str = ""


class WaitpointRow(View, frozen=True, kw_only=True):
    """An open waitpoint, without its token."""

    waitpoint_id: str
    waitpoint_key: str
    state: str
    required_signal_names: tuple[str, ...]
    created_at: int
    execution_id: str
    token_kid: str
    token_fingerprint: str
    activated_at: int = 0
    expires_at: int = 0
    message: str = ""
    details: Raw | UnsetType = UNSET

    @classmethod
    def of(cls, source: WaitpointView, /, **given: Any) -> Any:
        """Build it from a waitpoint of the engine."""
        details = Raw(source.details.encode()) if source.details else UNSET
        return super().of(source, **({"details": details} | given))


class WaitpointOfDetail(WaitpointRow, frozen=True, kw_only=True):
    """An open waitpoint of one execution, and why it waits."""

    reason: str


class EventView(View, frozen=True, kw_only=True):
    """One line of history."""

    seq: int
    at: int
    event: str
    attempt_index: int
    lease_epoch: int
    actor: str
    from_: str | None = field(name="from")
    to: str | None
    details: dict[str, str]
    reason: str = ""

    @classmethod
    def of(cls, source: Event, /, **given: Any) -> EventView:
        """Build it from a line of history."""
        return super().of(
            source,
            attempt_index=max(source.attempt_index, 0),
            from_=source.from_state or None,
            to=source.to_state or None,
            details=dict(source.details),
            **given,
        )


class AttemptView(View, frozen=True, kw_only=True):
    """One run of the handler."""

    attempt_index: int
    attempt_id: str | UnsetType = UNSET
    lease_epoch: int | UnsetType = UNSET
    attempt_type: str
    attempt_state: str
    replay_reason: str | UnsetType = UNSET
    replay_requested_by: str | UnsetType = UNSET
    replayed_from_attempt_index: int | UnsetType | None = UNSET
    retry_reason: str | UnsetType = UNSET
    reclaim_reason: str | UnsetType = UNSET
    previous_attempt_index: int | UnsetType | None = UNSET
    started_at: int = 0
    resumed_at: int = 0
    suspended_at: int = 0
    ended_at: int = 0
    worker_id: str = ""
    worker_instance_id: str = ""
    failure_reason: str = ""
    failure_category: str = ""
    failure_detail: str = ""
    ended_by: str = ""
    retry_at: int = 0
    result: Raw | UnsetType | None = UNSET
    result_base64: str | UnsetType = UNSET

    @classmethod
    def of(cls, source: Attempt, /, **given: Any) -> AttemptView:
        """Build it from the record of an attempt."""
        fence = {} if source.attempt_id else {"attempt_id": UNSET, "lease_epoch": UNSET}
        return super().of(
            source,
            attempt_index=source.index,
            attempt_type=source.kind,
            attempt_state=source.life,
            retry_at=source.delay_until,
            **fence,
            **_lineage(source),
            **given,
        )


def _lineage(attempt: Attempt) -> dict[str, Any]:
    """Return what an attempt follows, in the words of its type."""
    previous = attempt.previous_index if attempt.previous_index >= 0 else None
    if attempt.kind == "replay":
        return {
            "replay_reason": attempt.lineage_reason,
            "replay_requested_by": attempt.requested_by,
            "replayed_from_attempt_index": previous,
        }
    if attempt.kind in {"retry", "reclaim"}:
        return {f"{attempt.kind}_reason": attempt.lineage_reason, "previous_attempt_index": previous}
    return {}


class LeaseOfDetail(View, frozen=True, kw_only=True):
    """Who holds an execution, and until when; its id is for operators."""

    lease_id: str | UnsetType = UNSET
    lease_epoch: int | UnsetType = UNSET
    worker_id: str
    worker_instance_id: str
    acquired_at: int
    expires_at: int
    last_renewed_at: int | None

    @classmethod
    def of(cls, source: Execution, /, **given: Any) -> LeaseOfDetail | None:  # type: ignore[override]
        """Build it from the record of an execution; None if nobody holds it."""
        if source.ownership_state is not Ownership.LEASED:
            return None
        if source.current_lease_id:
            given |= {"lease_id": source.current_lease_id, "lease_epoch": source.current_lease_epoch}
        return cls(
            worker_id=source.current_worker_id,
            worker_instance_id=source.current_worker_instance_id,
            acquired_at=source.lease_acquired_at,
            expires_at=source.lease_expires_at,
            last_renewed_at=source.lease_last_renewed_at or None,
            **given,
        )


class Failure(View, frozen=True, kw_only=True):
    """Why an execution failed."""

    reason: str
    category: str


class SuspensionOfDetail(View, frozen=True, kw_only=True):
    """The current or last suspension."""

    suspension_id: str
    attempt_index: int
    waitpoint_id: str
    waitpoint_key: str
    reason_code: str
    requested_by: str
    created_at: int
    open: bool
    timeout_at: int = 0
    timeout_behavior: str = ""
    step_name: str = ""
    satisfied_at: int = 0
    closed_at: int = 0
    close_reason: str = ""
    continuation_metadata_pointer: str = ""

    @classmethod
    def of(cls, source: Suspension, /, **given: Any) -> SuspensionOfDetail:
        """Build it from the record of a suspension."""
        return super().of(source, open=not source.closed_at, **given)


class StepOfDetail(View, frozen=True, kw_only=True):
    """A stored step without its result."""

    name: str
    at: int
    call_index: int
    size: int


class Detail(_Head, frozen=True, kw_only=True):
    """Everything about an execution."""

    state_vector: StateVector
    lease: LeaseOfDetail | None
    flow_id: str | None
    creator_identity: str
    required_capabilities: tuple[str, ...]
    fairness_key: str
    partition: int
    counts: dict[str, int]
    dependencies: list[Any]
    budgets: list[Any]
    quotas: list[Any]
    usage: dict[str, Any]
    failure: Failure | None
    blocking_detail: str
    last_transition_at: int
    retention_ms: int | None
    payload_encoding: str = ""
    result_encoding: str = ""
    delay_until: int = 0
    execution_deadline_at: int = 0
    attempt_deadline_at: int = 0
    blocked_at: int = 0
    paused_at: int = 0
    progress_message: str = ""
    progress_updated_at: int = 0
    cancellation_reason: str = ""
    cancelled_by: str = ""
    lease_end: str = ""
    input: Raw | UnsetType = UNSET
    input_base64: str | UnsetType = UNSET
    policy: Any
    attempts: tuple[AttemptView, ...]
    suspension: SuspensionOfDetail | None
    waitpoints: tuple[WaitpointOfDetail, ...]
    steps: tuple[StepOfDetail, ...]
    because: tuple[Because, ...]

    @classmethod
    def of(cls, source: Execution, /, **given: Any) -> Detail:
        """Build it from the record of an execution and what belongs to it."""
        failed = source.failure_reason or source.failure_category
        counts = {
            "attempts": source.total_attempt_count,
            "retries": source.retry_count,
            "replays": source.replay_count,
            "reclaims": source.lease_reclaim_count,
            "signals": source.signal_count,
            "steps": source.step_count,
            "events": source.event_count,
        }
        found: Detail = super().of(
            source,
            state_vector=StateVector.of(source),
            lease=LeaseOfDetail.of(source),
            flow_id=source.flow_id or None,
            counts=counts,
            dependencies=[],
            budgets=list(source.budget_ids),
            quotas=list(source.quota_ids),
            usage={},
            failure=Failure(reason=source.failure_reason, category=source.failure_category)
            if failed
            else None,
            **given,
        )
        return found
