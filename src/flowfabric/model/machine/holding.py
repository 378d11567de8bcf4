"""Check the fence of a lease holder, and end a lease."""

from __future__ import annotations

from typing import Any, Final

from flowfabric.model.command import OPERATOR_OVERRIDE, Fence, HolderCommand
from flowfabric.model.errors import ExecutionNotActive, refuse
from flowfabric.model.machine.closing import close_stream
from flowfabric.model.machine.workspace import Cause, KeptRefusal, Workspace
from flowfabric.model.record_kinds import ATTEMPT
from flowfabric.model.records import Attempt, Execution
from flowfabric.model.state import FINAL_LIVES, Ownership, Phase
from flowfabric.model.transitions import LEASE_EXPIRED, Transition, move

TIMER: Final = "timer"
_ACTIVE: Final = Phase.ACTIVE
_LEASED: Final = Ownership.LEASED


def drop_lease(run: Execution) -> None:
    """Take a lease that is over out of a draft; only its epoch stays."""
    run.current_lease_id = run.current_worker_id = run.current_worker_instance_id = ""
    run.claim_id = run.claim_type = ""
    run.lease_acquired_at = run.lease_expires_at = 0
    run.lease_renewal_deadline = 0
    clear_lease_events(run)


def clear_lease_events(run: Execution) -> None:
    """Take out what befell a lease: what a new one starts without, and an ended one leaves behind."""
    run.lease_last_renewed_at = run.lease_expired_at = run.lease_revoked_at = 0
    run.lease_revoke_reason = run.lease_end = ""


def not_active(run: Execution) -> ExecutionNotActive:
    """Refuse with what the caller needs to find out whether its first call succeeded."""
    return ExecutionNotActive(
        details=(
            str(run.terminal_outcome),
            str(run.current_lease_epoch),
            str(run.lifecycle_phase),
            run.current_attempt_id,
        )
    )


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
        lose_lease(space, run, LEASE_EXPIRED, "expired", actor=TIMER)
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
        lost, row.event, Cause(actor, reason, lease_details(run)), before=run.public_state
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
    attempts = space.children(ATTEMPT, run.execution_id)
    return next((attempt for attempt in attempts if _belongs(attempt, fence)), None)


def _belongs(attempt: Attempt, fence: Fence) -> bool:
    return (
        attempt.attempt_id == fence.attempt_id
        and attempt.lease_epoch == fence.lease_epoch
        and attempt.lease_id == fence.lease_id
    )
