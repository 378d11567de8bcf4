"""What time does to an execution. Every step looks again whether its time has really come."""

from __future__ import annotations

from typing import Any

from flowfabric.model.contracts.base import ExecutionCommand
from flowfabric.model.contracts.create import AlreadySatisfied
from flowfabric.model.contracts.upkeep import (
    ExpireExecution,
    ExpireSuspension,
    ExpireWaitpoints,
    LoseDeadLease,
    MarkedExpired,
    MarkLeaseExpired,
    PromoteDelayed,
    Purge,
    Swept,
)
from flowfabric.model.indexes import deadlines
from flowfabric.model.machine.holder import promote_if_due, schedule_retry
from flowfabric.model.machine.lease import TIMER, finish, lose_lease
from flowfabric.model.machine.workspace import Workspace, step
from flowfabric.model.policy import may_retry
from flowfabric.model.records import Execution
from flowfabric.model.state import Eligibility, Ownership, Phase
from flowfabric.model.transitions import T8, T8_DEAD, T25


def due_commands(run: Execution, now: int) -> list[ExecutionCommand[Any]]:
    """Name the commands whose time has come for an execution, the earliest first."""
    due = sorted(entry for entry in deadlines(run) if entry[0] <= now)
    return [_COMMANDS[what](run.execution_id) for what in dict.fromkeys(what for _, what in due)]


_COMMANDS: dict[str, Any] = {
    "lease": lambda execution_id: MarkLeaseExpired(execution_id=execution_id),
    "delay": lambda execution_id: PromoteDelayed(execution_id=execution_id),
    "attempt": lambda execution_id: ExpireExecution(execution_id=execution_id),
    "deadline": lambda execution_id: ExpireExecution(execution_id=execution_id, reason="execution_deadline"),
    "suspension": lambda execution_id: ExpireSuspension(execution_id=execution_id),
    "waitpoint": lambda execution_id: ExpireWaitpoints(execution_id=execution_id),
    "retention": lambda execution_id: Purge(execution_id=execution_id),
}


@step(MarkLeaseExpired)
def mark_lease_expired(space: Workspace, command: MarkLeaseExpired) -> MarkedExpired | AlreadySatisfied:
    """T8: a lease that has run out."""
    run: Execution | None = space.get("execution", command.execution_id)
    if why := _no_lease(run):
        return AlreadySatisfied(why)
    assert run is not None
    if run.lease_expires_at > space.now:
        return AlreadySatisfied("not_yet_expired")
    lose_lease(space, run, T8, "expired", actor=TIMER)
    return MarkedExpired()


@step(LoseDeadLease)
def lose_dead_lease(space: Workspace, command: LoseDeadLease) -> MarkedExpired | AlreadySatisfied:
    """T8: the lease of a worker that was marked dead, if that worker still holds it."""
    run: Execution | None = space.get("execution", command.execution_id)
    if why := _no_lease(run):
        return AlreadySatisfied(why)
    assert run is not None
    if run.current_worker_instance_id != command.worker_instance_id:
        return AlreadySatisfied("held_by_another")
    lose_lease(space, run, T8_DEAD, "worker_dead", actor=command.actor or TIMER)
    return MarkedExpired()


def _no_lease(run: Execution | None) -> str:
    if run is None:
        return "execution_not_found"
    if run.lifecycle_phase is not Phase.ACTIVE:
        return "not_active"
    if run.ownership_state is Ownership.EXPIRED:
        return "already_expired"
    return "already_revoked" if run.ownership_state is Ownership.REVOKED else ""


@step(PromoteDelayed)
def promote_delayed(space: Workspace, command: PromoteDelayed) -> Swept:
    """T3: delayed work whose time has come."""
    run: Execution | None = space.get("execution", command.execution_id)
    if run is None:
        return Swept("not_found_cleaned")
    if run.lifecycle_phase is not Phase.RUNNABLE:
        return Swept("not_runnable_cleaned", run.public_state)
    if run.eligibility_state is not Eligibility.UNTIL_TIME:
        return Swept("not_delayed_cleaned", run.public_state)
    if run.delay_until > space.now:
        return Swept("not_yet_due", run.public_state)
    return Swept("promoted", promote_if_due(space, run, TIMER).public_state)


@step(ExpireExecution)
def expire_execution(space: Workspace, command: ExpireExecution) -> Swept:
    """T14, T25: an attempt timeout is a failure that may be retried; a deadline ends the execution."""
    run: Execution | None = space.get("execution", command.execution_id)
    if run is None:
        return Swept("not_found_cleaned")
    if run.lifecycle_phase is Phase.TERMINAL:
        return Swept("already_terminal", run.public_state)
    attempt_timeout = command.reason == "attempt_timeout"
    due_at = run.attempt_deadline_at if attempt_timeout else run.execution_deadline_at
    if not due_at or due_at > space.now:
        return Swept("not_yet_due", run.public_state)
    if attempt_timeout and may_retry(run.policy, "timeout", run.retry_count):
        retried = schedule_retry(space, run, actor=TIMER, reason=command.reason, category="timeout")
        return Swept("retry_scheduled", retried.public_state)
    category = "timeout" if attempt_timeout else ""
    ended = finish(
        space, run, T25, actor=TIMER, reason=command.reason, attempt_reason=command.reason, category=category,
        suspension_reason=f"expired:{command.reason}", failure_reason=command.reason, failure_category=category,
    )  # fmt: skip
    return Swept("expired", ended.public_state)


@step(Purge)
def purge(space: Workspace, command: Purge) -> Swept:
    """Delete an ended execution, and all that belongs to it, when its own retention is over."""
    run: Execution | None = space.get("execution", command.execution_id)
    if run is None:
        return Swept("not_found_cleaned")
    if run.lifecycle_phase is not Phase.TERMINAL:
        return Swept("not_terminal", run.public_state)
    if run.completed_at + run.retention_ms > space.now:
        return Swept("not_yet_due", run.public_state)
    space.put("execution", run.execution_id, value=None)
    space.emit("purge", run.execution_id, value=run)
    return Swept("purged")
