"""Signals: who may send them, where they are kept, what they do, and the operator who needs none."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import msgpack
from msgspec.structs import replace

from flowfabric.model.contracts.waiting import (
    ApproveSignal,
    DeliverSignal,
    Resumed,
    ResumeExecution,
    SignalAccepted,
    SignalDuplicate,
    signal_memo,
)
from flowfabric.model.errors import invalid, refuse
from flowfabric.model.evaluation import SATISFIED
from flowfabric.model.limits import MAX_INT, SIGNAL_LIST_LENGTH
from flowfabric.model.machine.resume import (
    MATCHED,
    end_suspension,
    offer_signal,
    open_suspension,
    satisfied_by,
)
from flowfabric.model.machine.secrets import keyring
from flowfabric.model.machine.workspace import Workspace, step
from flowfabric.model.records import VERSION, Execution, Memo, Signal, Suspension, Waitpoint
from flowfabric.model.state import Phase
from flowfabric.model.tokens import verify

BUFFERED = "buffered_for_pending_waitpoint"


class _Arrival(NamedTuple):
    """A signal that has shown that it may come in, and what its sender asks for."""

    command: DeliverSignal | ApproveSignal
    signal: Signal
    maxlen: int
    limit: int
    delay_ms: int | None
    """None: the suspension's own."""

    @property
    def actor(self) -> str:
        """Who the history names: the caller, else whoever the signal says that it is from."""
        return self.command.actor or self.signal.source_identity


@step(DeliverSignal)
def deliver_signal(space: Workspace, command: DeliverSignal) -> SignalAccepted | SignalDuplicate:
    """Take a signal from whoever holds the waitpoint's token; who does not learns nothing about the state."""
    run = space.execution(command.execution_id)
    waitpoint: Waitpoint | None = space.get("waitpoint", run.execution_id, command.waitpoint_id)
    if waitpoint is None:
        raise refuse("invalid_token")
    verify(
        keyring(space), command.waitpoint_token, run.execution_id, waitpoint.waitpoint_id,
        waitpoint.waitpoint_key, waitpoint.created_at, space.now,
    )  # fmt: skip
    signal = _signal(
        space, command, waitpoint, signal_category=command.signal_category, source_type=command.source_type,
        source_identity=command.source_identity, correlation_id=command.correlation_id,
        idempotency_key=command.idempotency_key, target_scope=command.target_scope,
        created_at=space.now if command.created_at is None else command.created_at,
    )  # fmt: skip
    limit = command.max_signals_per_execution
    limit = run.policy.max_signals if limit is None else limit
    arrival = _Arrival(command, signal, command.signal_maxlen, limit, command.resume_delay_ms)
    return _accept(space, run, waitpoint, arrival)


@step(ApproveSignal)
def approve_signal(space: Workspace, command: ApproveSignal) -> SignalAccepted | SignalDuplicate:
    """Take a signal from an operator, who needs no token."""
    run = space.execution(command.execution_id)
    if command.lane_id not in {"", run.lane_id}:
        raise invalid("lane_id", f"lane_mismatch: the execution is on lane {run.lane_id}")
    waitpoint: Waitpoint | None = space.get("waitpoint", run.execution_id, command.waitpoint_id)
    if waitpoint is None:
        raise refuse("waitpoint_not_found", field="waitpoint_id")
    signal = _signal(
        space, command, waitpoint, signal_category="approval", source_type="operator",
        source_identity=command.source_identity, correlation_id="",
        idempotency_key=command.dedup_key, target_scope="execution", created_at=space.now,
    )  # fmt: skip
    arrival = _Arrival(command, signal, SIGNAL_LIST_LENGTH, run.policy.max_signals, None)
    return _accept(space, run, waitpoint, arrival)


def _signal(
    space: Workspace, command: DeliverSignal | ApproveSignal, waitpoint: Waitpoint, **given: Any
) -> Signal:
    return Signal(
        version=VERSION, signal_id=command.signal_id, waitpoint_id=waitpoint.waitpoint_id,
        number=waitpoint.signal_count + 1, signal_name=command.signal_name, payload=command.payload,
        payload_encoding=command.payload_encoding, accepted_at=space.now, observed_effect="", **given,
    )  # fmt: skip


def _accept(
    space: Workspace, run: Execution, waitpoint: Waitpoint, arrival: _Arrival
) -> SignalAccepted | SignalDuplicate:
    suspension = _target(space, run, waitpoint)
    if arrival.limit and run.signal_count >= arrival.limit:
        raise refuse("signal_limit_exceeded", str(arrival.limit))
    known = _known(space, arrival.command)
    if known:
        return SignalDuplicate(known)
    _remember(space, arrival.command)
    if suspension is None:
        _record(space, run, waitpoint, arrival, BUFFERED)
        return SignalAccepted(arrival.signal.signal_id, BUFFERED)
    return SignalAccepted(arrival.signal.signal_id, _consider(space, run, waitpoint, suspension, arrival))


def _target(space: Workspace, run: Execution, waitpoint: Waitpoint) -> Suspension | None:
    """Return the suspension that the signal may end, or none when a pending waitpoint buffers it."""
    if run.lifecycle_phase is Phase.TERMINAL:
        raise refuse("target_not_signalable")
    if waitpoint.state == "pending":
        if waitpoint.expires_at <= space.now:
            raise refuse("waitpoint_closed")
        return None
    if run.lifecycle_phase is not Phase.SUSPENDED:
        raise refuse("target_not_signalable")
    if waitpoint.state != "active":
        raise refuse("waitpoint_closed")
    suspension = open_suspension(space, run)
    if suspension is None or waitpoint.suspension_id != suspension.suspension_id:
        raise refuse("target_not_signalable")
    return suspension


def _known(space: Workspace, command: DeliverSignal | ApproveSignal) -> str:
    if not command.dedup_key:
        return ""
    kind, key = signal_memo(command.execution_id, command.waitpoint_id, command.dedup_key)
    memo: Memo | None = space.get(kind, *key)
    if memo is None or memo.expires_at <= space.now:
        return ""
    return msgpack.decode(memo.value, type=str)


def _remember(space: Workspace, command: DeliverSignal | ApproveSignal) -> None:
    if command.dedup_key:
        kind, key = signal_memo(command.execution_id, command.waitpoint_id, command.dedup_key)
        until = min(space.now + command.dedup_ttl_ms, MAX_INT)
        space.put(kind, *key, value=Memo(msgpack.encode(command.signal_id), until))


def _consider(
    space: Workspace, run: Execution, waitpoint: Waitpoint, suspension: Suspension, arrival: _Arrival
) -> str:
    """Let the signal count; when it satisfies the condition, the work goes on in the same step."""
    condition, effect = offer_signal(suspension.condition, waitpoint, arrival.signal)
    suspension = replace(suspension, condition=condition, last_signal_at=space.now)
    space.put("suspension", run.execution_id, value=suspension)
    run = _record(space, run, waitpoint, arrival, effect)
    if effect == SATISFIED:
        delay_ms = suspension.resume_delay_ms if arrival.delay_ms is None else arrival.delay_ms
        end_suspension(
            space, run, "resumed", actor=arrival.actor, delay_ms=delay_ms,
            **satisfied_by(space, condition, arrival.signal),
        )  # fmt: skip
    return effect


def _record(
    space: Workspace, run: Execution, waitpoint: Waitpoint, arrival: _Arrival, effect: str
) -> Execution:
    """Keep the signal, count it, drop the oldest beyond the length that is kept, and tell the history."""
    signal = replace(arrival.signal, observed_effect=effect)
    first = max(waitpoint.first_signal, signal.number - arrival.maxlen + 1)
    old = [
        (run.execution_id, waitpoint.waitpoint_id, number) for number in range(waitpoint.first_signal, first)
    ]
    space.several("signal", old)
    for key in old:
        space.put("signal", *key, value=None)
    space.put("signal", run.execution_id, waitpoint.waitpoint_id, signal.number, value=signal)
    counted = replace(
        waitpoint, signal_count=signal.number, last_signal_at=space.now, first_signal=first,
        matched_signal_count=waitpoint.matched_signal_count + (effect in MATCHED),
        satisfied_at=space.now if effect == SATISFIED else waitpoint.satisfied_at,
    )  # fmt: skip
    space.put("waitpoint", run.execution_id, waitpoint.waitpoint_id, value=counted)
    return space.put_execution(
        replace(run, signal_count=run.signal_count + 1, last_mutation_at=space.now), "signal",
        actor=arrival.actor, before=run.public_state,
        details=(
            ("signal_id", signal.signal_id), ("signal_name", signal.signal_name),
            ("waitpoint_id", waitpoint.waitpoint_id), ("source_identity", signal.source_identity),
            ("effect", effect),
        ),
    )  # fmt: skip


@step(ResumeExecution)
def resume_execution(space: Workspace, command: ResumeExecution) -> Resumed:
    """T20, T21: an operator ends the wait, whatever its condition, unless that forbids it."""
    run = space.execution(command.execution_id)
    suspension = open_suspension(space, run) if run.lifecycle_phase is Phase.SUSPENDED else None
    if suspension is None:
        raise refuse("execution_not_suspended")
    if not suspension.condition.operator_override:
        raise refuse("resume_condition_not_met")
    resumed = end_suspension(
        space, run, "resumed_by_operator", actor=command.actor, delay_ms=command.resume_delay_ms
    )
    return Resumed(resumed.public_state)
