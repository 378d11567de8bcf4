"""End an attempt: complete, fail, cancel, delay, wait for children."""

from __future__ import annotations

from msgspec import Struct

from flowfabric.model import checks
from flowfabric.model.command import HOLDER_SOURCES, NO_FENCE, HolderCommand
from flowfabric.model.limits import (
    MAX_DETAIL_BYTES,
    MAX_INT,
    MAX_NAME_BYTES,
    MAX_RESULT_BYTES,
    MAX_TEXT_BYTES,
)
from flowfabric.model.machine.attempt import end_attempt, set_aside
from flowfabric.model.machine.closing import close_stream
from flowfabric.model.machine.ending import Ending, finish
from flowfabric.model.machine.group import step
from flowfabric.model.machine.holding import (
    actor_of,
    adopt_fence,
    drop_lease,
    hold,
    lease_details,
    not_active,
    past_attempt,
    require_lease,
)
from flowfabric.model.machine.workspace import Cause, Workspace
from flowfabric.model.policy import backoff_ms, may_retry
from flowfabric.model.record_kinds import RESULT
from flowfabric.model.records import Execution, Result
from flowfabric.model.state import Eligibility, Life, Phase, Public
from flowfabric.model.transitions import (
    CANCELLED,
    COMPLETED,
    DELAYED,
    DEPENDENCIES_SATISFIED,
    FAILED,
    PROMOTED,
    RETRY_SCHEDULED,
    WAITING_FOR_CHILDREN,
    move,
)


class Completed(Struct, frozen=True):
    """The execution ended well."""

    execution_id: str
    public_state: Public


class Complete(HolderCommand[Completed], frozen=True, kw_only=True):
    """End the attempt, and the execution, with a result (T13)."""

    result: bytes | None = None
    result_encoding: str = ""

    def check(self) -> None:
        """Check the result's size."""
        super().check()
        if self.result is not None:
            checks.payload("result", self.result, MAX_RESULT_BYTES)
        checks.text("result_encoding", self.result_encoding, max_bytes=MAX_NAME_BYTES, empty=True)


@step(Complete)
def complete(space: Workspace, command: Complete) -> Completed:
    """T13: the attempt and the execution end with a result."""
    run = space.execution(command.execution_id)
    fence = adopt_fence(run, command, override=True)
    before = past_attempt(space, run, fence)
    if before is not None and before.ended_by == "complete":
        return Completed(run.execution_id, Public.COMPLETED)
    require_lease(space, run, fence)
    if command.result is not None:
        result = Result(command.result, command.result_encoding)
        space.put(RESULT, run.execution_id, run.attempt.index, value=result)
    ended = finish(
        space,
        run,
        COMPLETED,
        Ending(
            actor=actor_of(run, command),
            attempt_changes={"ended_by": "complete"},
            changes={
                "result_encoding": command.result_encoding,
                "failure_reason": "",
                "failure_category": "",
            },
        ),
    )
    return Completed(ended.execution_id, ended.public_state)


class RetryScheduled(Struct, frozen=True):
    """It will be tried again."""

    delay_until: int
    next_attempt_index: int


class TerminalFailed(Struct, frozen=True):
    """It has failed for good."""


class Fail(HolderCommand[RetryScheduled | TerminalFailed], frozen=True, kw_only=True):
    """End the attempt with a failure; the policy decides whether there is another (T14, T15)."""

    reason: str
    category: str = "error"
    detail: str = ""
    retry_after_ms: int | None = None
    """Overrides the backoff of this retry; it does not add one."""

    def check(self) -> None:
        """Check the texts and the delay."""
        super().check()
        checks.text("reason", self.reason, max_bytes=MAX_TEXT_BYTES, empty=True)
        checks.name("category", self.category)
        checks.text("detail", self.detail, max_bytes=MAX_DETAIL_BYTES, empty=True)
        if self.retry_after_ms is not None:
            checks.integer("retry_after_ms", self.retry_after_ms, 0, MAX_INT)


@step(Fail)
def fail(space: Workspace, command: Fail) -> RetryScheduled | TerminalFailed:
    """T14, T15: the attempt ends with a failure; the policy decides whether another follows."""
    run = space.execution(command.execution_id)
    fence = adopt_fence(run, command, override=True)
    before = past_attempt(space, run, fence)
    if before is not None and before.ended_by == "fail":
        return (
            TerminalFailed()
            if before.next_index < 0
            else RetryScheduled(before.delay_until, before.next_index)
        )
    require_lease(space, run, fence)
    actor = actor_of(run, command)
    if may_retry(run.policy, command.category, run.retry_count):
        retried = schedule_retry(
            space,
            run,
            AttemptFailure(
                reason=command.reason,
                category=command.category,
                detail=command.detail,
                retry_after_ms=command.retry_after_ms,
                ended_by="fail",
            ),
            actor=actor,
        )
        return RetryScheduled(retried.attempt.delay_until, retried.attempt.next_index)
    finish(
        space,
        run,
        FAILED,
        Ending(
            actor=actor,
            reason=command.reason,
            attempt_reason=command.reason,
            category=command.category,
            attempt_changes={"failure_detail": command.detail, "ended_by": "fail"},
            changes={"failure_reason": command.reason, "failure_category": command.category},
        ),
    )
    return TerminalFailed()


class AttemptFailure(Struct, frozen=True):
    """Why an attempt failed, and when the next one may start."""

    reason: str
    category: str
    detail: str = ""
    retry_after_ms: int | None = None
    """None: the policy's backoff."""
    ended_by: str = ""


def schedule_retry(space: Workspace, run: Execution, failure: AttemptFailure, *, actor: str) -> Execution:
    """T14: end the attempt, wait for the backoff, and go on at once when there is none."""
    reason, category = failure.reason, failure.category
    delay = (
        backoff_ms(run.policy, run.retry_count, space.chance)
        if failure.retry_after_ms is None
        else failure.retry_after_ms
    )
    delay_until = min(space.now + delay, MAX_INT)
    close_stream(space, run, RETRY_SCHEDULED.closes_stream)
    attempt = end_attempt(
        space,
        run,
        Life.FAILURE,
        reason=reason,
        category=category,
        failure_detail=failure.detail,
        ended_by=failure.ended_by,
        delay_until=delay_until,
        next_index=run.total_attempt_count,
    )
    retried = move(
        run,
        RETRY_SCHEDULED,
        space.now,
        attempt=attempt,
        current_attempt_id="",
        retry_count=run.retry_count + 1,
        delay_until=delay_until,
        failure_reason=reason,
        failure_category=category,
        attempt_deadline_at=0,
        attempt_timeout_remaining_ms=0,
        pending_lineage_reason=reason,
        pending_previous_index=attempt.index,
        grant=(),
    )
    drop_lease(retried)
    retried = space.put_execution(
        retried,
        RETRY_SCHEDULED.event,
        Cause(
            actor, reason, (*lease_details(run), ("category", category), ("delay_until", str(delay_until)))
        ),
        before=run.public_state,
    )
    return promote_if_due(space, retried, actor)


def promote_if_due(space: Workspace, run: Execution, actor: str) -> Execution:
    """T3: what waits for a time that has come is eligible in the same step."""
    if run.eligibility_state is not Eligibility.UNTIL_TIME or run.delay_until > space.now:
        return run
    promoted = move(run, PROMOTED, space.now, delay_until=0)
    return space.put_execution(promoted, PROMOTED.event, Cause(actor), before=run.public_state)


class Cancelled(Struct, frozen=True):
    """The execution is cancelled."""

    execution_id: str
    public_state: Public = Public.CANCELLED


class Cancel(HolderCommand[Cancelled], frozen=True, kw_only=True):
    """Cancel whatever has not ended (T24). Sources `lease_holder` and `worker` need the fence on active work."""

    reason: str = ""

    def check(self) -> None:
        """Check the reason."""
        super().check()
        checks.text("reason", self.reason, max_bytes=MAX_TEXT_BYTES, empty=True)


@step(Cancel)
def cancel(space: Workspace, command: Cancel) -> Cancelled:
    """T24: end whatever has not ended."""
    run = space.execution(command.execution_id)
    if command.source in HOLDER_SOURCES:
        _check_fence_shape(run, command)
        before = past_attempt(space, run, command.fence)
        if before is not None and before.ended_by == "cancel":
            return Cancelled(run.execution_id)
    if run.lifecycle_phase is Phase.TERMINAL:
        raise not_active(run)
    if command.source in HOLDER_SOURCES and (run.lifecycle_phase is Phase.ACTIVE or command.fence.given):
        require_lease(space, run, command.fence)
    finish(
        space,
        run,
        CANCELLED,
        Ending(
            actor=command.actor or command.source or run.execution_id,
            reason=command.reason,
            attempt_reason=f"cancelled: {command.reason}",
            category="cancelled",
            suspension_reason="cancelled",
            attempt_changes={"ended_by": "cancel"} if command.source in HOLDER_SOURCES else {},
            changes={
                "cancellation_reason": command.reason,
                "cancelled_by": command.source or run.execution_id,
            },
        ),
    )
    return Cancelled(run.execution_id)


def _check_fence_shape(run: Execution, command: Cancel) -> None:
    """Refuse a fence of the wrong shape; work that nobody holds can be cancelled without one."""
    if command.fence != NO_FENCE or run.lifecycle_phase is Phase.ACTIVE:
        adopt_fence(run, command, override=False)


class Delayed(Struct, frozen=True):
    """The lease was given back until a time."""

    execution_id: str
    public_state: Public


class Delay(HolderCommand[Delayed], frozen=True, kw_only=True):
    """Go on later with the same attempt (T16)."""

    delay_until: int

    def check(self) -> None:
        """Check the time."""
        super().check()
        checks.integer("delay_until", self.delay_until, 0, MAX_INT)


@step(Delay)
def delay(space: Workspace, command: Delay) -> Delayed:
    """T16: the same attempt goes on later."""
    run = hold(space, command, override=True)
    actor = actor_of(run, command)
    delayed = set_aside(space, run, DELAYED, "worker_delay")
    delayed.delay_until = command.delay_until
    delayed = space.put_execution(
        delayed,
        DELAYED.event,
        Cause(actor, "worker_delay", (*lease_details(run), ("delay_until", str(command.delay_until)))),
        before=run.public_state,
    )
    delayed = promote_if_due(space, delayed, actor)
    return Delayed(delayed.execution_id, delayed.public_state)


class Moved(Struct, frozen=True):
    """The lease was given back until children end."""

    execution_id: str
    public_state: Public


class WaitChildren(HolderCommand[Moved], frozen=True, kw_only=True):
    """Go on with the same attempt when the children have ended (T17)."""


@step(WaitChildren)
def wait_children(space: Workspace, command: WaitChildren) -> Moved:
    """T17, T30: the same attempt goes on when nothing that it waits for is left."""
    run = hold(space, command, override=True)
    actor = actor_of(run, command)
    moved = set_aside(space, run, WAITING_FOR_CHILDREN, "waiting_children")
    moved = space.put_execution(
        moved,
        WAITING_FOR_CHILDREN.event,
        Cause(actor, "waiting_children", lease_details(run)),
        before=run.public_state,
    )
    moved = space.put_execution(
        move(moved, DEPENDENCIES_SATISFIED, space.now),
        DEPENDENCIES_SATISFIED.event,
        Cause(actor),
        before=moved.public_state,
    )
    return Moved(moved.execution_id, moved.public_state)
