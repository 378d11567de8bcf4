"""Begin, resume, set aside and end attempts."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from flowfabric.model.limits import MAX_INT
from flowfabric.model.machine.holding import clear_lease_events, drop_lease, lease_details
from flowfabric.model.machine.workspace import Cause, Workspace
from flowfabric.model.record_kinds import ATTEMPT
from flowfabric.model.records import UNSET, Attempt, Execution
from flowfabric.model.state import FINAL_LIVES, Life
from flowfabric.model.transitions import CLAIMED_RESUMED, Transition, move


def clear_waiting(run: Execution) -> None:
    """Take out why and until when a draft was kept from being claimed."""
    run.grant = ()
    run.delay_until = run.blocked_at = run.paused_at = 0
    run.blocking_detail = ""


def clear_lineage(run: Execution) -> None:
    """Take out why the next attempt was to come."""
    run.pending_lineage_reason = run.pending_requested_by = ""
    run.pending_previous_index = UNSET


class NewLease(Struct, frozen=True, gc=False):
    """A lease that is about to be given: who takes it, and for how long."""

    worker_id: str
    worker_instance_id: str
    lease_id: str
    ttl_ms: int
    claim_id: str = ""
    reason: str = ""
    """How it came about, for the history."""


def _begun(
    space: Workspace,
    run: Execution,
    row: Transition,
    lease: NewLease,
    attempt: Attempt,
    claim_type: str,
    **changes: Any,
) -> Execution:
    """Draft a lease on an attempt, new or resumed: the common part of T5, T6 and T11."""
    now = space.now
    begun = move(run, row, now, **changes)
    begun.attempt = attempt
    begun.current_attempt_id = attempt.attempt_id
    begun.claim_type = claim_type
    begun.claim_id = lease.claim_id
    begun.current_lease_id = lease.lease_id
    begun.current_lease_epoch = attempt.lease_epoch
    begun.current_worker_id = lease.worker_id
    begun.current_worker_instance_id = lease.worker_instance_id
    begun.lease_acquired_at = now
    begun.lease_expires_at = now + lease.ttl_ms
    begun.lease_renewal_deadline = now + lease.ttl_ms * 2 // 3
    begun.started_at = run.started_at or now
    clear_lease_events(begun)
    clear_waiting(begun)
    return begun


def _put_begun(
    space: Workspace, run: Execution, begun: Execution, row: Transition, lease: NewLease
) -> Execution:
    return space.put_execution(
        begun, row.event, Cause(lease.worker_id, lease.reason, lease_details(begun)), before=run.public_state
    )


def begin_attempt(
    space: Workspace,
    run: Execution,
    row: Transition,
    lease: NewLease,
    attempt: Attempt,
    *,
    ended: Attempt | None = None,
    **changes: Any,
) -> Execution:
    """Start a new attempt under a new lease (T5, T11); the one before, which has ended, gets its row."""
    if run.attempt.index >= 0:  # it stood in the execution until now
        space.put(ATTEMPT, run.execution_id, run.attempt.index, value=ended or run.attempt)
    begun = _begun(space, run, row, lease, attempt, attempt.kind, **changes)
    begun.total_attempt_count = attempt.index + 1
    timeout = run.policy.attempt_timeout_ms
    begun.attempt_deadline_at = min(space.now + timeout, MAX_INT) if timeout else 0
    begun.attempt_timeout_remaining_ms = 0
    begun.has_stream = False
    begun.current_suspension_id = begun.current_waitpoint_id = ""
    clear_lineage(begun)
    return _put_begun(space, run, begun, row, lease)


def resume_attempt(space: Workspace, run: Execution, lease: NewLease) -> Execution:
    """Go on with an interrupted attempt under a new lease (T6); its timeout runs on from where it stopped."""
    attempt = replace(
        run.attempt,
        life=Life.STARTED,
        resumed_at=space.now,
        suspended_at=0,
        suspension_id="",
        lease_id=lease.lease_id,
        lease_epoch=run.current_lease_epoch + 1,
        worker_id=lease.worker_id,
        worker_instance_id=lease.worker_instance_id,
    )
    begun = _begun(space, run, CLAIMED_RESUMED, lease, attempt, "resumed")
    remaining = run.attempt_timeout_remaining_ms
    begun.attempt_timeout_remaining_ms = 0
    begun.attempt_deadline_at = min(space.now + remaining, MAX_INT) if remaining else 0
    return _put_begun(space, run, begun, CLAIMED_RESUMED, lease)


def set_aside(space: Workspace, run: Execution, row: Transition, suspension_id: str) -> Execution:
    """Draft how a holder gives its lease back and keeps its attempt (T16, T17, T18)."""
    aside = move(run, row, space.now)
    drop_lease(aside)
    aside.attempt = replace(
        run.attempt, life=Life.SUSPENDED, suspended_at=space.now, suspension_id=suspension_id
    )
    aside.attempt_deadline_at = 0
    if run.attempt_deadline_at:
        aside.attempt_timeout_remaining_ms = max(run.attempt_deadline_at - space.now, 1)
    else:
        aside.attempt_timeout_remaining_ms = 0
    aside.current_suspension_id = aside.current_waitpoint_id = ""
    return aside


def end_attempt(
    space: Workspace, run: Execution, life: Life, *, reason: str = "", category: str = "", **changes: Any
) -> Attempt:
    """Return the current attempt, ended; it stays in its execution until another one takes its place."""
    attempt = run.attempt
    if attempt.index < 0 or attempt.life in FINAL_LIVES:
        return attempt
    return replace(
        attempt, life=life, ended_at=space.now, failure_reason=reason, failure_category=category, **changes
    )
