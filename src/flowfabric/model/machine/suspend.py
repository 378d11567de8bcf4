"""Giving the lease back until signals come: the suspension itself, and the answer that a repeat gets."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, msgpack
from msgspec.structs import replace

from flowfabric.model.conditions import Condition, needs_timeout
from flowfabric.model.contracts.lease import SignalView
from flowfabric.model.contracts.waiting import (
    OpenWaitpoint,
    SatisfiedAtOnce,
    Suspend,
    Suspended,
    suspend_memo,
)
from flowfabric.model.errors import invalid, refuse
from flowfabric.model.evaluation import SATISFIED
from flowfabric.model.limits import (
    MAX_INT,
    MAX_STEPS,
    SUSPEND_MEMO_GRACE_MS,
    SUSPEND_MEMO_MAX_MS,
    TIMEOUT_PAST_TOLERANCE_MS,
)
from flowfabric.model.machine.claim import satisfying
from flowfabric.model.machine.lease import actor_of, hold, lease_details, set_aside
from flowfabric.model.machine.resume import (
    MATCHED,
    keep_wait,
    offer_signal,
    open_suspension,
    satisfied_by,
    wait_details,
)
from flowfabric.model.machine.waitpoints import bind, without_pending
from flowfabric.model.machine.workspace import Workspace, step
from flowfabric.model.records import VERSION, Execution, Memo, Signal, Suspension, Waitpoint
from flowfabric.model.state import Blocking
from flowfabric.model.transitions import T18, T19, move

AUTO_RESUME: Final = "auto_resume_with_timeout_signal"

BLOCKING: Final = {
    "waiting_for_approval": Blocking.APPROVAL,
    "waiting_for_callback": Blocking.CALLBACK,
    "waiting_for_tool_result": Blocking.TOOL_RESULT,
    "waiting_for_operator_review": Blocking.OPERATOR,
    "manual_pause": Blocking.OPERATOR,
    "paused_by_policy": Blocking.POLICY,
    "paused_by_budget": Blocking.BUDGET,
}
"""What a reason code blocks on; every other one waits for a signal."""


@step(Suspend)
def suspend(space: Workspace, command: Suspend) -> Suspended | SatisfiedAtOnce:
    """T18: give the lease back until a condition holds; T19: keep it, because the condition holds already."""
    answer = _remembered(space, command)
    if answer is not None:
        return answer.outcome()
    _check_past(space, command)
    run = hold(space, command)
    _check_free(space, run, command)
    suspension = _suspension(space, run, command)
    waitpoints = bind(space, run, command, suspension.timeout_at)
    suspension, primary, closer = _offer_buffered(space, run, suspension, waitpoints[0])
    waitpoints = (primary, *waitpoints[1:])
    suspension = replace(
        suspension, waitpoint_key=primary.waitpoint_key,
        additional=tuple((extra.waitpoint_id, extra.waitpoint_key) for extra in waitpoints[1:]),
    )  # fmt: skip
    if closer is None:
        signals = _set_aside(space, run, command, suspension)
    else:
        suspension, waitpoints, signals = _go_on(space, run, command, suspension, primary, closer)
    space.put("suspension", run.execution_id, value=suspension)
    for waitpoint in waitpoints:
        space.put("waitpoint", run.execution_id, waitpoint.waitpoint_id, value=waitpoint)
    answer = Answer(suspension.suspension_id, tuple(map(_opened, waitpoints)), closer is not None, signals)
    _remember(space, command, answer, suspension.timeout_at)
    return answer.outcome()


# What a suspension needs.


def _check_past(space: Workspace, command: Suspend) -> None:
    if command.timeout_at is not None and command.timeout_at + TIMEOUT_PAST_TOLERANCE_MS < space.now:
        raise invalid("timeout_at", "timeout_at_in_past")


def _check_free(space: Workspace, run: Execution, command: Suspend) -> None:
    if command.attempt_index is not None and command.attempt_index != run.attempt.index:
        raise refuse("invalid_lease_for_suspend", field="attempt_index")
    if open_suspension(space, run) is not None:
        raise refuse("already_suspended")
    # Nothing can store steps while it is suspended, so room that is there now is there when the wait ends.
    if (
        command.step_name
        and run.step_count >= MAX_STEPS
        and space.get("step", run.execution_id, command.step_name) is None
    ):
        raise refuse("step_limit_exceeded", str(MAX_STEPS))


def _suspension(space: Workspace, run: Execution, command: Suspend) -> Suspension:
    timeout_at = _timeout_at(space, run, command)
    if needs_timeout(command.condition) and not timeout_at:
        raise invalid("timeout_at", "timeout_only_without_deadline")
    behavior = command.timeout_behavior or run.policy.suspension_timeout_behavior
    primary = command.waitpoints[0]
    return Suspension(
        VERSION, command.suspension_id, run.attempt.index, primary.waitpoint_id, primary.waitpoint_key, (),
        command.reason_code, command.requested_by, space.now, timeout_at,
        AUTO_RESUME if behavior == "auto_resume" else behavior, command.condition,
        resume_delay_ms=command.resume_delay_ms, step_name=command.step_name,
        continuation_metadata_pointer=command.continuation_metadata_pointer,
        resume_policy_json=command.resume_policy_json,
    )  # fmt: skip


def _timeout_at(space: Workspace, run: Execution, command: Suspend) -> int:
    if command.timeout_at is not None:
        # 0 means that there is none.
        return max(command.timeout_at, 1)
    after = command.timeout_ms
    if after is None:
        after = run.policy.suspension_timeout_ms or None
    return 0 if after is None else min(space.now + after, MAX_INT)


def _offer_buffered(
    space: Workspace, run: Execution, suspension: Suspension, waitpoint: Waitpoint
) -> tuple[Suspension, Waitpoint, Signal | None]:
    """Offer what a pending waitpoint has buffered, oldest first; the signal that satisfies comes back."""
    if not waitpoint.signal_count:
        return suspension, waitpoint, None
    condition: Condition = suspension.condition
    matched = 0
    closer: Signal | None = None
    for signal in space.children("signal", run.execution_id, waitpoint.waitpoint_id):
        condition, effect = offer_signal(condition, waitpoint, signal)
        matched += effect in MATCHED
        if effect == SATISFIED:
            closer = signal
            break
    suspension = replace(suspension, condition=condition, last_signal_at=waitpoint.last_signal_at)
    return suspension, replace(waitpoint, matched_signal_count=matched), closer


# The two ways on.


def _set_aside(
    space: Workspace, run: Execution, command: Suspend, suspension: Suspension
) -> tuple[SignalView, ...]:
    aside = set_aside(space, run, T18, suspension.suspension_id)
    aside.current_suspension_id = suspension.suspension_id
    aside.current_waitpoint_id = suspension.waitpoint_id
    aside.suspension_timeout_at = suspension.timeout_at
    aside.blocking_reason = BLOCKING.get(suspension.reason_code, Blocking.SIGNAL)
    aside.pending_waitpoints = without_pending(run, suspension.waitpoint_id)
    space.put_execution(
        aside, T18.event, actor=actor_of(run, command), before=run.public_state, reason=suspension.reason_code,
        details=(*lease_details(run), *wait_details(suspension)),
    )  # fmt: skip
    return ()


def _go_on(
    space: Workspace,
    run: Execution,
    command: Suspend,
    suspension: Suspension,
    waitpoint: Waitpoint,
    closer: Signal,
) -> tuple[Suspension, tuple[Waitpoint, ...], tuple[SignalView, ...]]:
    suspension = replace(
        suspension, closed_at=space.now, close_reason="resumed",
        **satisfied_by(space, suspension.condition, closer),
    )  # fmt: skip
    waitpoint = replace(
        waitpoint, state="closed", satisfied_at=space.now, closed_at=space.now, close_reason="resumed"
    )
    went_on = move(
        keep_wait(space, run, suspension), T19, space.now,
        pending_waitpoints=without_pending(run, suspension.waitpoint_id),
    )  # fmt: skip
    space.put_execution(
        went_on, T19.event, actor=actor_of(run, command), before=run.public_state,
        reason=suspension.reason_code, details=wait_details(suspension),
    )  # fmt: skip
    return suspension, (waitpoint,), satisfying(space, run, suspension)


# The answer, kept for a repeat.


class Answer(Struct, frozen=True, array_like=True):
    """What a suspension was answered with, as it is remembered under its idempotency key."""

    suspension_id: str
    waitpoints: tuple[OpenWaitpoint, ...]
    satisfied: bool
    signals: tuple[SignalView, ...]

    def outcome(self) -> Suspended | SatisfiedAtOnce:
        """Say it to the caller."""
        first, *others = self.waitpoints
        if self.satisfied:
            return SatisfiedAtOnce(self.suspension_id, first, tuple(others), self.signals)
        return Suspended(self.suspension_id, first, tuple(others))


def _opened(waitpoint: Waitpoint) -> OpenWaitpoint:
    return OpenWaitpoint(waitpoint.waitpoint_id, waitpoint.waitpoint_key, waitpoint.token)


def _remembered(space: Workspace, command: Suspend) -> Answer | None:
    if not command.idempotency_key:
        return None
    kind, key = suspend_memo(command.execution_id, command.idempotency_key)
    memo: Memo | None = space.get(kind, *key)
    if memo is None or memo.expires_at <= space.now:
        return None
    return msgpack.decode(memo.value, type=Answer)


def _remember(space: Workspace, command: Suspend, answer: Answer, timeout_at: int) -> None:
    if not command.idempotency_key:
        return
    kept = SUSPEND_MEMO_MAX_MS
    if timeout_at:
        kept = min(max(timeout_at - space.now, 0) + SUSPEND_MEMO_GRACE_MS, kept)
    kind, key = suspend_memo(command.execution_id, command.idempotency_key)
    space.put(kind, *key, value=Memo(msgpack.encode(answer), min(space.now + kept, MAX_INT)))
