"""What every lease-holder operation shares: the fence, the lease, and beginning and ending attempts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from flowfabric.model.contracts.base import OPERATOR_OVERRIDE, Fence, HolderCommand
from flowfabric.model.errors import ExecutionNotActive, refuse
from flowfabric.model.limits import MAX_INT
from flowfabric.model.machine.workspace import KeptRefusal, Workspace
from flowfabric.model.records import UNSET, Attempt, Execution, Stream, Suspension, Waitpoint
from flowfabric.model.state import FINAL_LIVES, AttemptState, Life, Ownership, Phase
from flowfabric.model.transitions import T6, T8, Transition, move

TIMER: Final = "timer"
_ACTIVE: Final = Phase.ACTIVE
_LEASED: Final = Ownership.LEASED


def drop_lease(run: Execution) -> None:
    """Take a lease that is over out of a draft; only its epoch stays."""
    run.current_lease_id = run.current_worker_id = run.current_worker_instance_id = ""
    run.claim_id = run.claim_type = ""
    run.lease_acquired_at = run.lease_expires_at = 0
    run.lease_renewal_deadline = 0
    _forget_trouble(run)


def _forget_trouble(run: Execution) -> None:
    """Take out what befell a lease: what a new one starts without, and an ended one leaves behind."""
    run.lease_last_renewed_at = run.lease_expired_at = run.lease_revoked_at = 0
    run.lease_revoke_reason = run.lease_end = ""


def _forget_waiting(run: Execution) -> None:
    """Take out why and until when a draft was kept from being claimed."""
    run.grant = ()
    run.delay_until = run.blocked_at = run.paused_at = 0
    run.blocking_detail = ""


def _forget_lineage(run: Execution) -> None:
    """Take out why the next attempt was to come."""
    run.pending_lineage_reason = run.pending_requested_by = ""
    run.pending_previous_index = UNSET


def not_active(run: Execution) -> ExecutionNotActive:
    """Refuse with what the caller needs to find out whether its first call succeeded."""
    return ExecutionNotActive(
        details=(
            str(run.terminal_outcome), str(run.current_lease_epoch), str(run.lifecycle_phase),
            run.current_attempt_id,
        )
    )  # fmt: skip


def adopt_fence(run: Execution, command: HolderCommand[Any], override: bool) -> Fence:
    """Check the shape of the fence; an operator without one takes the stored one where that is allowed."""
    fence = command.fence
    if fence.whole:
        return fence
    if fence.given:
        raise refuse("partial_fence_triple", field="fence")
    if override and command.source == OPERATOR_OVERRIDE:
        return Fence(run.current_lease_id, run.current_lease_epoch, run.current_attempt_id)
    raise refuse("fence_required", field="fence")


def require_lease(space: Workspace, run: Execution, fence: Fence, *, mark: bool = True) -> None:
    """Let only the holder of a live lease pass; one that has run out is marked in the same step, if asked."""
    if run.lifecycle_phase is not _ACTIVE:
        raise not_active(run)
    if run.ownership_state is not _LEASED:
        raise refuse("lease_revoked" if run.ownership_state is Ownership.REVOKED else "lease_expired")
    if run.lease_expires_at <= space.now:
        if not mark:
            raise refuse("lease_expired")
        lose_lease(space, run, T8, "expired", actor=TIMER)
        raise KeptRefusal(refuse("lease_expired"))
    if not holds(run, fence):
        raise refuse("stale_lease")


def holds(run: Execution, fence: Fence) -> bool:
    """Whether the fence names the current lease and attempt."""
    return (
        run.current_lease_id == fence.lease_id
        and run.current_lease_epoch == fence.lease_epoch
        and run.current_attempt_id == fence.attempt_id
    )


def hold(
    space: Workspace, command: HolderCommand[Any], *, override: bool = False, mark: bool = True
) -> Execution:
    """Load the execution of a holder's command and make sure that the holder still holds it."""
    run = space.execution(command.execution_id)
    require_lease(space, run, adopt_fence(run, command, override), mark=mark)
    return run


def actor_of(run: Execution, command: HolderCommand[Any]) -> str:
    """Say who acts: whoever the command names, else the worker that holds the lease."""
    return command.actor or run.current_worker_id


def lose_lease(
    space: Workspace, run: Execution, row: Transition, end: str, *, actor: str, reason: str = ""
) -> Execution:
    """T8 in its three forms: the lease ends, the work can be claimed again."""
    close_stream(space, run, row.closes_stream)
    lost = move(run, row, space.now, lease_expired_at=space.now, lease_end=end)
    return space.put_execution(
        lost, row.event, actor=actor, before=run.public_state, reason=reason, details=lease_details(run)
    )


def lease_details(run: Execution) -> tuple[tuple[str, str], ...]:
    """Name a lease in the history."""
    return (
        ("lease_id", run.current_lease_id),
        ("attempt_id", run.current_attempt_id),
        ("worker_id", run.current_worker_id),
        ("worker_instance_id", run.current_worker_instance_id),
    )


def past_attempt(space: Workspace, run: Execution, fence: Fence) -> Attempt | None:
    """Find the ended attempt that a fence belongs to, so that a repeated call gets its first answer again."""
    if (run.ownership_state is _LEASED and holds(run, fence)) or not fence.whole:
        return None
    if _belongs(run.attempt, fence):
        return run.attempt if run.attempt.life in FINAL_LIVES else None
    if fence.lease_epoch >= run.attempt.lease_epoch:
        return None
    attempts: list[Attempt] = space.children("attempt", run.execution_id)
    return next((attempt for attempt in attempts if _belongs(attempt, fence)), None)


def _belongs(attempt: Attempt, fence: Fence) -> bool:
    return (
        attempt.attempt_id == fence.attempt_id
        and attempt.lease_epoch == fence.lease_epoch
        and attempt.lease_id == fence.lease_id
    )


class Lease(Struct, frozen=True, gc=False):
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
    lease: Lease,
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
    _forget_trouble(begun)
    _forget_waiting(begun)
    return begun


def _put_begun(
    space: Workspace, run: Execution, begun: Execution, row: Transition, lease: Lease
) -> Execution:
    return space.put_execution(
        begun, row.event, actor=lease.worker_id, before=run.public_state, reason=lease.reason,
        details=lease_details(begun),
    )  # fmt: skip


def begin_attempt(
    space: Workspace,
    run: Execution,
    row: Transition,
    lease: Lease,
    attempt: Attempt,
    *,
    ended: Attempt | None = None,
    **changes: Any,
) -> Execution:
    """Start a new attempt under a new lease (T5, T11); the one before, which has ended, gets its row."""
    if run.attempt.index >= 0:  # it stood in the execution until now
        space.put("attempt", run.execution_id, run.attempt.index, value=ended or run.attempt)
    begun = _begun(space, run, row, lease, attempt, attempt.kind, **changes)
    begun.total_attempt_count = attempt.index + 1
    timeout = run.policy.attempt_timeout_ms
    begun.attempt_deadline_at = min(space.now + timeout, MAX_INT) if timeout else 0
    begun.attempt_timeout_remaining_ms = 0
    begun.has_stream = False
    begun.current_suspension_id = begun.current_waitpoint_id = ""
    _forget_lineage(begun)
    return _put_begun(space, run, begun, row, lease)


def resume_attempt(space: Workspace, run: Execution, lease: Lease) -> Execution:
    """Go on with an interrupted attempt under a new lease (T6); its timeout runs on from where it stopped."""
    attempt = replace(
        run.attempt, life=Life.STARTED, resumed_at=space.now, suspended_at=0, suspension_id="",
        lease_id=lease.lease_id, lease_epoch=run.current_lease_epoch + 1, worker_id=lease.worker_id,
        worker_instance_id=lease.worker_instance_id,
    )  # fmt: skip
    begun = _begun(space, run, T6, lease, attempt, "resumed")
    remaining = run.attempt_timeout_remaining_ms
    begun.attempt_timeout_remaining_ms = 0
    begun.attempt_deadline_at = min(space.now + remaining, MAX_INT) if remaining else 0
    return _put_begun(space, run, begun, T6, lease)


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


def close_stream(space: Workspace, run: Execution, reason: str, *, override: bool = False) -> None:
    """Close the current attempt's stream, if it has one; a reason given first stands unless overridden."""
    if not run.has_stream or not reason:
        return
    stream: Stream = space.get("stream", run.execution_id, run.attempt.index)
    if stream.closed_at and not override:
        return
    closed = replace(stream, closed_at=stream.closed_at or space.now, closed_reason=reason)
    space.put("stream", run.execution_id, run.attempt.index, value=closed)


def close_waitpoints(space: Workspace, run: Execution, waitpoint_ids: Iterable[str], reason: str) -> None:
    """Close those of some waitpoints that are still open."""
    waitpoints: list[Waitpoint | None] = space.several(
        "waitpoint", ((run.execution_id, waitpoint_id) for waitpoint_id in waitpoint_ids)
    )
    for waitpoint in waitpoints:
        if waitpoint is not None and waitpoint.state != "closed":
            closed = replace(waitpoint, state="closed", closed_at=space.now, close_reason=reason)
            space.put("waitpoint", run.execution_id, waitpoint.waitpoint_id, value=closed)


def waitpoints_of(suspension: Suspension) -> tuple[str, ...]:
    """Name the waitpoints of a suspension, the primary one first."""
    return (suspension.waitpoint_id, *(waitpoint_id for waitpoint_id, _ in suspension.additional))


def close_suspension(space: Workspace, run: Execution, reason: str, **changes: Any) -> Suspension:
    """Close the current suspension and every waitpoint of it."""
    suspension: Suspension = space.get("suspension", run.execution_id)
    close_waitpoints(space, run, waitpoints_of(suspension), reason)
    closed = replace(suspension, closed_at=space.now, close_reason=reason, **changes)
    space.put("suspension", run.execution_id, value=closed)
    return closed


def finish(
    space: Workspace,
    run: Execution,
    row: Transition,
    *,
    actor: str,
    reason: str = "",
    attempt_reason: str = "",
    category: str = "",
    suspension_reason: str = "",
    attempt_changes: dict[str, Any] | None = None,
    **changes: Any,
) -> Execution:
    """End an execution in any way: its attempt, its stream, its waits, and every time that was running."""
    if run.has_stream:
        close_stream(space, run, row.closes_stream, override=row.closes_stream == "reclaimed")
    if run.lifecycle_phase is Phase.SUSPENDED:
        close_suspension(space, run, suspension_reason)
    if run.pending_waitpoints:
        close_waitpoints(space, run, [pending for pending, _ in run.pending_waitpoints], "execution_ended")
    assert row.attempt_life is not None
    attempt = end_attempt(
        space, run, row.attempt_life, reason=attempt_reason, category=category, **(attempt_changes or {})
    )
    ended = move(run, row, space.now, **changes)
    ended.attempt = attempt
    if row.to.attempt is None and attempt.index >= 0:
        ended.attempt_state = AttemptState.TERMINAL
    ended.completed_at = space.now
    drop_lease(ended)
    _forget_waiting(ended)
    _forget_lineage(ended)
    ended.attempt_deadline_at = ended.attempt_timeout_remaining_ms = ended.suspension_timeout_at = 0
    ended.pending_waitpoints = ()
    return space.put_execution(
        ended, row.event, actor=actor, before=run.public_state, reason=reason,
        details=lease_details(run) if run.current_lease_id else (),
    )  # fmt: skip
