"""Do what is due: leases, delays, timeouts, deadlines, retention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from flowfabric.model import checks
from flowfabric.model.command import Command, ExecutionCommand, Page, Question, ReadRequest
from flowfabric.model.errors import invalid
from flowfabric.model.indexes import DueEntry, deadlines
from flowfabric.model.limits import MAX_INT
from flowfabric.model.machine.closing import waitpoints_of
from flowfabric.model.machine.ending import Ending, finish
from flowfabric.model.machine.group import step
from flowfabric.model.machine.holding import TIMER, lose_lease
from flowfabric.model.machine.suspension import end_suspension, open_suspension
from flowfabric.model.machine.workspace import Cause, Workspace
from flowfabric.model.operations.finish import AttemptFailure, promote_if_due, schedule_retry
from flowfabric.model.operations.lease import AlreadySatisfied
from flowfabric.model.operations.suspend import AUTO_RESUME
from flowfabric.model.operations.suspend_waitpoint import NEVER_USED, drop_pending
from flowfabric.model.policy import may_retry
from flowfabric.model.record_kinds import EXECUTION, SUSPENSION, WAITPOINT, IndexQuery, RecordKind
from flowfabric.model.records import Execution, Suspension
from flowfabric.model.state import Eligibility, Ownership, Phase
from flowfabric.model.transitions import (
    ESCALATED,
    EXPIRED,
    LEASE_EXPIRED,
    SUSPENSION_CANCELLED,
    SUSPENSION_EXPIRED,
    SUSPENSION_FAILED,
    WORKER_DIED,
    move,
)


class DuePage(Page, frozen=True):
    """What is due, the earliest first, and when the next thing is."""

    entries: tuple[DueEntry, ...]
    next_due_at: int
    """The earliest time after `before`; 0 when there is none."""


class ReadDue(Question[DuePage], frozen=True, kw_only=True):
    """Return what is due at a time."""

    before: int | None = None
    """None: now."""
    limit: int = 100

    def check(self) -> None:
        """Check time and limit."""
        super().check()
        if self.before is not None:
            checks.integer("before", self.before, 0, MAX_INT)
        checks.integer("limit", self.limit, 1, MAX_INT)


DUE: Final[IndexQuery[tuple[tuple[DueEntry, ...], int]]] = IndexQuery("due")


@step(ReadDue)
def read_due(space: Workspace, question: ReadDue) -> DuePage:
    """Return what is due."""
    before = space.now if question.before is None else question.before
    entries, next_due_at = space.get(DUE, before, question.limit)
    return DuePage(entries, next_due_at)


def due_commands(entry: DueEntry, now: int) -> list[Command[Any]]:
    """Return the commands that do what is due for an entry, the earliest first."""
    return DUE_COMMANDS[entry.kind](entry.record, now)


def execution_commands(run: Execution, now: int) -> list[Command[Any]]:
    """Return the commands that do what is due for an execution, the earliest first."""
    due = sorted(entry for entry in deadlines(run) if entry[0] <= now)
    return [_COMMANDS[what](run.execution_id) for what in dict.fromkeys(what for _, what in due)]


class MarkedExpired(Struct, frozen=True):
    """The lease has run out; the work is claimable again."""


class MarkLeaseExpired(ExecutionCommand[MarkedExpired | AlreadySatisfied], frozen=True, kw_only=True):
    """Note that a lease has run out, if it has (T8)."""


@step(MarkLeaseExpired)
def mark_lease_expired(space: Workspace, command: MarkLeaseExpired) -> MarkedExpired | AlreadySatisfied:
    """T8: a lease that has run out."""
    run = space.get(EXECUTION, command.execution_id)
    if why := _no_lease(run):
        return AlreadySatisfied(why)
    assert run is not None
    if run.lease_expires_at > space.now:
        return AlreadySatisfied("not_yet_expired")
    lose_lease(space, run, LEASE_EXPIRED, "expired", actor=TIMER)
    return MarkedExpired()


class LoseDeadLease(ExecutionCommand[MarkedExpired | AlreadySatisfied], frozen=True, kw_only=True):
    """Take a lease from a worker that is dead (T8, counted as a reclaim)."""

    worker_instance_id: str


@step(LoseDeadLease)
def lose_dead_lease(space: Workspace, command: LoseDeadLease) -> MarkedExpired | AlreadySatisfied:
    """T8: the lease of a worker that was marked dead, if that worker still holds it."""
    run = space.get(EXECUTION, command.execution_id)
    if why := _no_lease(run):
        return AlreadySatisfied(why)
    assert run is not None
    if run.current_worker_instance_id != command.worker_instance_id:
        return AlreadySatisfied("held_by_another")
    lose_lease(space, run, WORKER_DIED, "worker_dead", actor=command.actor or TIMER)
    return MarkedExpired()


def _no_lease(run: Execution | None) -> str:
    if run is None:
        return "execution_not_found"
    if run.lifecycle_phase is not Phase.ACTIVE:
        return "not_active"
    if run.ownership_state is Ownership.EXPIRED:
        return "already_expired"
    return "already_revoked" if run.ownership_state is Ownership.REVOKED else ""


class Swept(Struct, frozen=True):
    """What a timer's step did, in one word, and the state it left."""

    outcome: str
    public_state: str = ""


class PromoteDelayed(ExecutionCommand[Swept], frozen=True, kw_only=True):
    """Make delayed work eligible when its time has come (T3)."""


@step(PromoteDelayed)
def promote_delayed(space: Workspace, command: PromoteDelayed) -> Swept:
    """T3: delayed work whose time has come."""
    run = space.get(EXECUTION, command.execution_id)
    if run is None:
        return Swept("not_found_cleaned")
    if run.lifecycle_phase is not Phase.RUNNABLE:
        return Swept("not_runnable_cleaned", run.public_state)
    if run.eligibility_state is not Eligibility.UNTIL_TIME:
        return Swept("not_delayed_cleaned", run.public_state)
    if run.delay_until > space.now:
        return Swept("not_yet_due", run.public_state)
    return Swept("promoted", promote_if_due(space, run, TIMER).public_state)


class ExpireExecution(ExecutionCommand[Swept], frozen=True, kw_only=True):
    """Act on an attempt timeout or a deadline that has passed (T14, T25)."""

    reason: str = "attempt_timeout"

    def check(self) -> None:
        """Check the reason."""
        super().check()
        if self.reason not in {"attempt_timeout", "execution_deadline"}:
            raise invalid("reason", "attempt_timeout or execution_deadline")


@step(ExpireExecution)
def expire_execution(space: Workspace, command: ExpireExecution) -> Swept:
    """T14, T25: an attempt timeout is a failure that may be retried; a deadline ends the execution."""
    run = space.get(EXECUTION, command.execution_id)
    if run is None:
        return Swept("not_found_cleaned")
    if run.lifecycle_phase is Phase.TERMINAL:
        return Swept("already_terminal", run.public_state)
    attempt_timeout = command.reason == "attempt_timeout"
    due_at = run.attempt_deadline_at if attempt_timeout else run.execution_deadline_at
    if not due_at or due_at > space.now:
        return Swept("not_yet_due", run.public_state)
    if attempt_timeout and may_retry(run.policy, "timeout", run.retry_count):
        retried = schedule_retry(
            space, run, AttemptFailure(reason=command.reason, category="timeout"), actor=TIMER
        )
        return Swept("retry_scheduled", retried.public_state)
    category = "timeout" if attempt_timeout else ""
    ended = finish(
        space,
        run,
        EXPIRED,
        Ending(
            actor=TIMER,
            reason=command.reason,
            attempt_reason=command.reason,
            category=category,
            suspension_reason=f"expired:{command.reason}",
            changes={"failure_reason": command.reason, "failure_category": category},
        ),
    )
    return Swept("expired", ended.public_state)


class ExpireSuspension(ExecutionCommand[Swept], frozen=True, kw_only=True):
    """Apply the timeout behaviour of a suspension whose time is over (T20, T22, T23)."""

    def reads(self) -> tuple[ReadRequest, ...]:
        """The execution and its suspension."""
        return (*super().reads(), (SUSPENSION, (self.execution_id,)))


_ENDS: Final = {"fail": SUSPENSION_FAILED, "cancel": SUSPENSION_CANCELLED, "expire": SUSPENSION_EXPIRED}


@step(ExpireSuspension)
def expire_suspension(space: Workspace, command: ExpireSuspension) -> Swept:
    """T20, T22, T23: a suspension whose time is over does what it was told to do then."""
    run = space.get(EXECUTION, command.execution_id)
    if run is None:
        return Swept("not_found_cleaned")
    if run.lifecycle_phase is not Phase.SUSPENDED:
        return Swept("not_suspended_cleaned", run.public_state)
    suspension = open_suspension(space, run)
    if suspension is None:
        return Swept("no_active_suspension_cleaned", run.public_state)
    if not run.suspension_timeout_at or run.suspension_timeout_at > space.now:
        return Swept("not_yet_due", run.public_state)
    behavior = suspension.timeout_behavior
    if behavior == AUTO_RESUME:
        resumed = end_suspension(space, run, "timed_out_auto_resume", actor=TIMER)
        return Swept("auto_resume", resumed.public_state)
    if behavior == "escalate":
        return Swept(behavior, _escalate(space, run, suspension).public_state)
    reason = f"suspension_timeout:{behavior}"
    ended = finish(
        space,
        run,
        _ENDS[behavior],
        Ending(
            actor=TIMER,
            reason=reason,
            attempt_reason=reason,
            category="timeout",
            suspension_reason=f"timed_out_{behavior}",
            changes={"failure_reason": reason, "failure_category": "timeout"},
        ),
    )
    return Swept(behavior, ended.public_state)


def _escalate(space: Workspace, run: Execution, suspension: Suspension) -> Execution:
    """T23: wait on without a time, for an operator; signals still count."""
    waiting = replace(suspension, timeout_at=0, reason_code="waiting_for_operator_review")
    space.put(SUSPENSION, run.execution_id, value=waiting)
    keys = [(run.execution_id, waitpoint_id) for waitpoint_id in waitpoints_of(suspension)]
    waitpoints = space.several(WAITPOINT, keys)
    for waitpoint in waitpoints:
        assert waitpoint is not None
        # They expired with the timeout, which is no more.
        space.put(WAITPOINT, run.execution_id, waitpoint.waitpoint_id, value=replace(waitpoint, expires_at=0))
    escalated = move(run, ESCALATED, space.now, suspension_timeout_at=0)
    return space.put_execution(
        escalated,
        ESCALATED.event,
        Cause(TIMER, details=(("suspension_id", suspension.suspension_id),)),
        before=run.public_state,
    )


class ExpireWaitpoints(ExecutionCommand[Swept], frozen=True, kw_only=True):
    """Close pending waitpoints whose time is over."""


@step(ExpireWaitpoints)
def expire_waitpoints(space: Workspace, command: ExpireWaitpoints) -> Swept:
    """Close pending waitpoints whose time is over."""
    run = space.get(EXECUTION, command.execution_id)
    if run is None:
        return Swept("not_found_cleaned")
    over = tuple(waitpoint_id for waitpoint_id, at in run.pending_waitpoints if at <= space.now)
    if not over:
        return Swept("not_yet_due", run.public_state)
    return Swept("closed", drop_pending(space, run, over, NEVER_USED, actor=TIMER).public_state)


class Purge(ExecutionCommand[Swept], frozen=True, kw_only=True):
    """Delete an ended execution and all that belongs to it, when its retention is over."""


@step(Purge)
def purge(space: Workspace, command: Purge) -> Swept:
    """Delete an ended execution, and all that belongs to it, when its own retention is over."""
    run = space.get(EXECUTION, command.execution_id)
    if run is None:
        return Swept("not_found_cleaned")
    if run.lifecycle_phase is not Phase.TERMINAL:
        return Swept("not_terminal", run.public_state)
    if run.completed_at + run.retention_ms > space.now:
        return Swept("not_yet_due", run.public_state)
    space.put(EXECUTION, run.execution_id, value=None)
    space.emit("purge", run.execution_id, value=run)
    return Swept("purged")


_COMMANDS: dict[str, Any] = {
    "lease": lambda execution_id: MarkLeaseExpired(execution_id=execution_id),
    "delay": lambda execution_id: PromoteDelayed(execution_id=execution_id),
    "attempt": lambda execution_id: ExpireExecution(execution_id=execution_id),
    "deadline": lambda execution_id: ExpireExecution(execution_id=execution_id, reason="execution_deadline"),
    "suspension": lambda execution_id: ExpireSuspension(execution_id=execution_id),
    "waitpoint": lambda execution_id: ExpireWaitpoints(execution_id=execution_id),
    "retention": lambda execution_id: Purge(execution_id=execution_id),
}


DUE_COMMANDS: Final[dict[RecordKind[Any], Callable[[Any, int], list[Command[Any]]]]] = {
    EXECUTION: execution_commands,
}
"""By kind of record: which commands do what is due for it."""
