"""Suspend an execution until signals come, and resume it as an operator."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, msgpack
from msgspec.structs import replace

from flowfabric.model import checks
from flowfabric.model.command import HolderCommand, ReadRequest
from flowfabric.model.conditions import Condition, needs_timeout, referenced_keys
from flowfabric.model.errors import invalid, refuse
from flowfabric.model.evaluation import SATISFIED
from flowfabric.model.ids import check_uuid
from flowfabric.model.limits import (
    MAX_INT,
    MAX_NAME_BYTES,
    MAX_STEPS,
    MAX_TEXT_BYTES,
    SUSPEND_MEMO_GRACE_MS,
    SUSPEND_MEMO_MAX_MS,
    TIMEOUT_PAST_TOLERANCE_MS,
)
from flowfabric.model.machine.attempt import set_aside
from flowfabric.model.machine.group import step
from flowfabric.model.machine.holding import actor_of, hold, lease_details
from flowfabric.model.machine.suspension import (
    MATCHED,
    keep_wait,
    offer_signal,
    open_suspension,
    satisfied_by,
    satisfying,
    wait_details,
)
from flowfabric.model.machine.workspace import Cause, Workspace
from flowfabric.model.operations.access_secret import KEYRING_REQUEST, keyring
from flowfabric.model.operations.suspend_waitpoint import (
    NEVER_USED,
    OpenWaitpoint,
    check_question,
    forget_signals,
    require_unused,
    without_pending,
)
from flowfabric.model.record_kinds import IDEMPOTENCY, SIGNAL, STEP, SUSPENSION, WAITPOINT, Key
from flowfabric.model.records import VERSION, Execution, Memo, Signal, Suspension, Waitpoint
from flowfabric.model.state import Blocking
from flowfabric.model.tokens import mint
from flowfabric.model.transitions import ALREADY_SATISFIED, SUSPENDED, move
from flowfabric.model.views import SignalView

TIMEOUT_BEHAVIORS = (
    "fail",
    "cancel",
    "expire",
    "auto_resume_with_timeout_signal",
    "auto_resume",
    "escalate",
)
"""What a caller may give; `auto_resume` is short for the long word."""


class Binding(Struct, frozen=True):
    """A waitpoint to suspend on: a fresh one with its key, or a pending one by its id."""

    waitpoint_id: str
    waitpoint_key: str = ""
    pending: bool = False


class Suspended(Struct, frozen=True):
    """The lease was given back; signals on these waitpoints resume it."""

    suspension_id: str
    waitpoint: OpenWaitpoint
    additional_waitpoints: tuple[OpenWaitpoint, ...] = ()


class SatisfiedAtOnce(Struct, frozen=True):
    """Buffered signals satisfied the condition already: the caller keeps its lease and goes on."""

    suspension_id: str
    waitpoint: OpenWaitpoint
    additional_waitpoints: tuple[OpenWaitpoint, ...] = ()
    resume_signals: tuple[SignalView, ...] = ()


class Suspend(HolderCommand[Suspended | SatisfiedAtOnce], frozen=True, kw_only=True):
    """Give the lease back until a condition on signals holds (T18, T19)."""

    suspension_id: str
    waitpoints: tuple[Binding, ...]
    condition: Condition
    reason_code: str = "waiting_for_signal"
    requested_by: str = "worker"
    timeout_at: int | None = None
    timeout_ms: int | None = None
    timeout_behavior: str | None = None
    resume_delay_ms: int = 0
    resume_policy_json: str = ""
    continuation_metadata_pointer: str = ""
    idempotency_key: str = ""
    step_name: str = ""
    attempt_index: int | None = None
    message: str = ""
    """What its waitpoints show to whoever is to answer; empty: what a pending one shows already."""
    details: str = ""
    """More about it: a JSON object as text."""

    def check(self) -> None:
        """Check bindings against the condition, and every other field."""
        super().check()
        check_uuid("suspension_id", self.suspension_id)
        self._check_bindings()
        self.condition.check()
        check_question(self.message, self.details)
        for field in ("reason_code", "requested_by"):
            checks.name(field, getattr(self, field))
        for field in ("resume_policy_json", "continuation_metadata_pointer"):
            checks.text(field, getattr(self, field), max_bytes=MAX_TEXT_BYTES, empty=True)
        for field in ("idempotency_key", "step_name"):
            checks.text(field, getattr(self, field), max_bytes=MAX_NAME_BYTES, empty=True)
        checks.integer("resume_delay_ms", self.resume_delay_ms, 0, MAX_INT)
        if self.attempt_index is not None:
            checks.integer("attempt_index", self.attempt_index)
        if self.timeout_at is not None:
            checks.integer("timeout_at", self.timeout_at, 0, MAX_INT)
        if self.timeout_ms is not None:
            checks.integer("timeout_ms", self.timeout_ms, 0, MAX_INT)
        if self.timeout_at is not None and self.timeout_ms is not None:
            raise invalid("timeout_at", "give timeout_at or timeout_ms, not both")
        if self.timeout_behavior is not None and self.timeout_behavior not in TIMEOUT_BEHAVIORS:
            raise invalid("timeout_behavior", f"one of {', '.join(TIMEOUT_BEHAVIORS)}")

    def _check_bindings(self) -> None:
        if not self.waitpoints:
            raise invalid("waitpoints", "waitpoints_empty")
        keys = referenced_keys(self.condition)
        primary = self.waitpoints[0]
        for binding in self.waitpoints:
            check_uuid("waitpoints.waitpoint_id", binding.waitpoint_id)
            checks.text(
                "waitpoints.waitpoint_key", binding.waitpoint_key, max_bytes=MAX_NAME_BYTES, empty=True
            )
        if len({binding.waitpoint_id for binding in self.waitpoints}) != len(self.waitpoints):
            raise invalid("waitpoints", "each waitpoint_id once")
        if not primary.pending and not primary.waitpoint_key:
            raise invalid("waitpoints", "a fresh waitpoint needs a key")
        if len(self.waitpoints) == 1:
            if keys and not primary.pending and any(key != primary.waitpoint_key for key in keys):
                raise invalid("waitpoints", "waitpoint_key_mismatch")
            return
        self._check_additional(keys)

    def _check_additional(self, keys: tuple[str, ...]) -> None:
        for place, binding in enumerate(self.waitpoints[1:], 1):
            if binding.pending:
                raise invalid(
                    "waitpoints", f"additional_waitpoint_binding_must_be_fresh at waitpoints[{place}]"
                )
            if not binding.waitpoint_key:
                raise invalid("waitpoints", f"additional_waitpoint_binding_empty_key at waitpoints[{place}]")
        bound = [binding.waitpoint_key for binding in self.waitpoints if binding.waitpoint_key]
        for key in keys:
            if key not in bound and not self.waitpoints[0].pending:
                raise invalid("waitpoints", f"referenced_waitpoint_key_missing_binding: {key}")
        for key in bound:
            if key not in keys:
                raise invalid("waitpoints", f"extra_binding_not_referenced_by_condition: {key}")
        if len(set(bound)) != len(bound):
            raise invalid("waitpoints", "each waitpoint_key once")

    def reads(self) -> tuple[ReadRequest, ...]:
        """The execution, its suspension, the keys, its waitpoints, and what the idempotency key remembers."""
        reads: tuple[ReadRequest, ...] = (
            *super().reads(),
            (SUSPENSION, (self.execution_id,)),
            KEYRING_REQUEST,
        )
        if self.idempotency_key:
            reads = (*reads, (IDEMPOTENCY, suspend_key(self.execution_id, self.idempotency_key)))
        if self.step_name:
            reads = (*reads, (STEP, (self.execution_id, self.step_name)))
        return reads + tuple((WAITPOINT, (self.execution_id, b.waitpoint_id)) for b in self.waitpoints)


def suspend_key(execution_id: str, key: str) -> Key:
    """Name the idempotency record of a suspension."""
    return ("suspend", execution_id, key)


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
        suspension,
        waitpoint_key=primary.waitpoint_key,
        additional=tuple((extra.waitpoint_id, extra.waitpoint_key) for extra in waitpoints[1:]),
    )
    if closer is None:
        signals = _set_aside(space, run, command, suspension)
    else:
        suspension, waitpoints, signals = _go_on(space, run, command, suspension, primary, closer)
    space.put(SUSPENSION, run.execution_id, value=suspension)
    for waitpoint in waitpoints:
        space.put(WAITPOINT, run.execution_id, waitpoint.waitpoint_id, value=waitpoint)
    answer = Answer(suspension.suspension_id, tuple(map(_opened, waitpoints)), closer is not None, signals)
    _remember(space, command, answer, suspension.timeout_at)
    return answer.outcome()


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
        and space.get(STEP, run.execution_id, command.step_name) is None
    ):
        raise refuse("step_limit_exceeded", str(MAX_STEPS))


def _suspension(space: Workspace, run: Execution, command: Suspend) -> Suspension:
    timeout_at = _timeout_at(space, run, command)
    if needs_timeout(command.condition) and not timeout_at:
        raise invalid("timeout_at", "timeout_only_without_deadline")
    behavior = command.timeout_behavior or run.policy.suspension_timeout_behavior
    primary = command.waitpoints[0]
    return Suspension(
        VERSION,
        command.suspension_id,
        run.attempt.index,
        primary.waitpoint_id,
        primary.waitpoint_key,
        (),
        command.reason_code,
        command.requested_by,
        space.now,
        timeout_at,
        AUTO_RESUME if behavior == "auto_resume" else behavior,
        command.condition,
        resume_delay_ms=command.resume_delay_ms,
        step_name=command.step_name,
        continuation_metadata_pointer=command.continuation_metadata_pointer,
        resume_policy_json=command.resume_policy_json,
    )


def _timeout_at(space: Workspace, run: Execution, command: Suspend) -> int:
    if command.timeout_at is not None:
        # 0 means that there is none.
        return max(command.timeout_at, 1)
    after = command.timeout_ms
    if after is None:
        after = run.policy.suspension_timeout_ms or None
    return 0 if after is None else min(space.now + after, MAX_INT)


def bind(space: Workspace, run: Execution, command: Suspend, timeout_at: int) -> tuple[Waitpoint, ...]:
    """Make the waitpoints of a suspension: the pending one that it uses, or fresh ones with their tokens."""
    if command.waitpoints[0].pending:
        used = _usable(space, run, command)
        return (
            replace(
                used,
                state="active",
                suspension_id=command.suspension_id,
                activated_at=space.now,
                expires_at=timeout_at,
                message=command.message or used.message,
                details=command.details or used.details,
            ),
        )
    for binding in command.waitpoints:
        require_unused(space, run, binding.waitpoint_id)
    fresh = tuple(_fresh(space, run, command, binding, timeout_at) for binding in command.waitpoints)
    for waitpoint in fresh:
        forget_signals(space, run, waitpoint.waitpoint_id)
    return fresh


def _usable(space: Workspace, run: Execution, command: Suspend) -> Waitpoint:
    binding = command.waitpoints[0]
    waitpoint = space.get(WAITPOINT, run.execution_id, binding.waitpoint_id)
    if waitpoint is None:
        raise refuse("waitpoint_not_found", field="waitpoints")
    if waitpoint.state != "pending":
        late = waitpoint.close_reason == NEVER_USED  # whether the timer has passed by makes no difference
        raise refuse("pending_waitpoint_expired" if late else "waitpoint_not_pending", field="waitpoints")
    if waitpoint.attempt_index != run.attempt.index:
        raise refuse("invalid_waitpoint_for_execution", field="waitpoints")
    if waitpoint.expires_at <= space.now:
        raise refuse("pending_waitpoint_expired", field="waitpoints")
    if len(command.waitpoints) > 1:
        raise refuse("use_pending_with_extras_unsupported", field="waitpoints")
    # Only the record knows the key: a condition that listens elsewhere would wait for ever.
    wanted = {*referenced_keys(command.condition), binding.waitpoint_key} - {""}
    if wanted - {waitpoint.waitpoint_key}:
        raise invalid("waitpoints", "waitpoint_key_mismatch")
    return waitpoint


def _fresh(
    space: Workspace, run: Execution, command: Suspend, binding: Binding, timeout_at: int
) -> Waitpoint:
    token = mint(keyring(space), run.execution_id, binding.waitpoint_id, binding.waitpoint_key, space.now)
    return Waitpoint(
        VERSION,
        binding.waitpoint_id,
        run.attempt.index,
        binding.waitpoint_key,
        token,
        "active",
        space.now,
        suspension_id=command.suspension_id,
        activated_at=space.now,
        expires_at=timeout_at,
        message=command.message,
        details=command.details,
    )


def _offer_buffered(
    space: Workspace, run: Execution, suspension: Suspension, waitpoint: Waitpoint
) -> tuple[Suspension, Waitpoint, Signal | None]:
    """Offer what a pending waitpoint has buffered, oldest first; the signal that satisfies comes back."""
    if not waitpoint.signal_count:
        return suspension, waitpoint, None
    condition: Condition = suspension.condition
    matched = 0
    closer: Signal | None = None
    for signal in space.children(SIGNAL, run.execution_id, waitpoint.waitpoint_id):
        condition, effect = offer_signal(condition, waitpoint, signal)
        matched += effect in MATCHED
        if effect == SATISFIED:
            closer = signal
            break
    suspension = replace(suspension, condition=condition, last_signal_at=waitpoint.last_signal_at)
    return suspension, replace(waitpoint, matched_signal_count=matched), closer


def _set_aside(
    space: Workspace, run: Execution, command: Suspend, suspension: Suspension
) -> tuple[SignalView, ...]:
    aside = set_aside(space, run, SUSPENDED, suspension.suspension_id)
    aside.current_suspension_id = suspension.suspension_id
    aside.current_waitpoint_id = suspension.waitpoint_id
    aside.suspension_timeout_at = suspension.timeout_at
    aside.blocking_reason = BLOCKING.get(suspension.reason_code, Blocking.SIGNAL)
    aside.pending_waitpoints = without_pending(run, suspension.waitpoint_id)
    space.put_execution(
        aside,
        SUSPENDED.event,
        Cause(
            actor_of(run, command), suspension.reason_code, (*lease_details(run), *wait_details(suspension))
        ),
        before=run.public_state,
    )
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
        suspension,
        closed_at=space.now,
        close_reason="resumed",
        **satisfied_by(space, suspension.condition, closer),
    )
    waitpoint = replace(
        waitpoint, state="closed", satisfied_at=space.now, closed_at=space.now, close_reason="resumed"
    )
    went_on = move(
        keep_wait(space, run, suspension),
        ALREADY_SATISFIED,
        space.now,
        pending_waitpoints=without_pending(run, suspension.waitpoint_id),
    )
    space.put_execution(
        went_on,
        ALREADY_SATISFIED.event,
        Cause(actor_of(run, command), suspension.reason_code, wait_details(suspension)),
        before=run.public_state,
    )
    return suspension, (waitpoint,), satisfying(space, run, suspension)


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
    key = suspend_key(command.execution_id, command.idempotency_key)
    known = space.get(IDEMPOTENCY, *key)
    if known is None or known.expires_at <= space.now:
        return None
    return msgpack.decode(known.value, type=Answer)


def _remember(space: Workspace, command: Suspend, answer: Answer, timeout_at: int) -> None:
    if not command.idempotency_key:
        return
    kept = SUSPEND_MEMO_MAX_MS
    if timeout_at:
        kept = min(max(timeout_at - space.now, 0) + SUSPEND_MEMO_GRACE_MS, kept)
    key = suspend_key(command.execution_id, command.idempotency_key)
    space.put(IDEMPOTENCY, *key, value=Memo(msgpack.encode(answer), min(space.now + kept, MAX_INT)))
