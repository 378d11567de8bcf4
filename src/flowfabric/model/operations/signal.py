"""Deliver signals, and read the inbox of open waitpoints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from msgspec import Struct, msgpack
from msgspec.structs import replace

from flowfabric.model import checks
from flowfabric.model.command import CursorQuestion, ExecutionCommand, ExecutionQuestion, Page, ReadRequest
from flowfabric.model.conditions import is_sentinel
from flowfabric.model.errors import invalid, refuse
from flowfabric.model.evaluation import SATISFIED
from flowfabric.model.ids import check_uuid
from flowfabric.model.limits import (
    DEFAULT_DEDUP_MS,
    MAX_INT,
    MAX_NAME_BYTES,
    MAX_SIGNAL_BYTES,
    MAX_SIGNALS,
    MAX_TEXT_BYTES,
    SIGNAL_LIST_LENGTH,
)
from flowfabric.model.machine.group import step
from flowfabric.model.machine.suspension import (
    MATCHED,
    end_suspension,
    offer_signal,
    open_suspension,
    satisfied_by,
    satisfying,
)
from flowfabric.model.machine.workspace import Cause, Workspace
from flowfabric.model.operations.access_secret import KEYRING_REQUEST, keyring
from flowfabric.model.operations.suspend_waitpoint import WaitpointView, is_open, waitpoint_view
from flowfabric.model.record_kinds import IDEMPOTENCY, SIGNAL, SUSPENSION, WAITPOINT, IndexQuery, Key
from flowfabric.model.records import VERSION, Execution, Memo, Signal, Suspension, Waitpoint
from flowfabric.model.redaction import redact, shown, shown_text
from flowfabric.model.state import Phase
from flowfabric.model.tokens import verify
from flowfabric.model.views import SignalView


class SignalAccepted(Struct, frozen=True):
    """The signal is recorded; `effect` says what it did."""

    signal_id: str
    effect: str


class SignalDuplicate(Struct, frozen=True):
    """The idempotency key was used before."""

    existing_signal_id: str


class _SignalCommand(ExecutionCommand[SignalAccepted | SignalDuplicate], frozen=True, kw_only=True):
    waitpoint_id: str
    signal_id: str
    signal_name: str
    payload: bytes = b""
    payload_encoding: str = "json"
    dedup_ttl_ms: int = DEFAULT_DEDUP_MS

    def check(self) -> None:
        """Check ids, name and payload."""
        super().check()
        check_uuid("waitpoint_id", self.waitpoint_id)
        check_uuid("signal_id", self.signal_id)
        checks.name("signal_name", self.signal_name)
        if is_sentinel(self.signal_name):
            raise invalid("signal_name", "this name is reserved; choose another")
        checks.payload("payload", self.payload, MAX_SIGNAL_BYTES)
        checks.text("payload_encoding", self.payload_encoding, max_bytes=MAX_NAME_BYTES, empty=True)
        checks.integer("dedup_ttl_ms", self.dedup_ttl_ms, 0, MAX_INT)

    @property
    def dedup_key(self) -> str:
        """The key under which a repeat is recognised, or empty."""
        raise NotImplementedError

    def reads(self) -> tuple[ReadRequest, ...]:
        """The execution, its suspension, the waitpoint, the keys, and what the idempotency key remembers."""
        reads: tuple[ReadRequest, ...] = (
            *super().reads(),
            (SUSPENSION, (self.execution_id,)),
            (WAITPOINT, (self.execution_id, self.waitpoint_id)),
            KEYRING_REQUEST,
        )
        if not self.dedup_key:
            return reads
        return (*reads, (IDEMPOTENCY, signal_key(self.execution_id, self.waitpoint_id, self.dedup_key)))


def signal_key(execution_id: str, waitpoint_id: str, key: str) -> Key:
    """Name the idempotency record of a signal; callers choose waitpoint ids, so the execution belongs to the name."""
    return ("signal", execution_id, waitpoint_id, key)


class DeliverSignal(_SignalCommand, frozen=True, kw_only=True):
    """Deliver a signal with the waitpoint's token; a pending waitpoint buffers it."""

    waitpoint_token: str
    signal_category: str = ""
    source_type: str = ""
    source_identity: str = ""
    correlation_id: str = ""
    idempotency_key: str = ""
    target_scope: str = "waitpoint"
    created_at: int | None = None
    resume_delay_ms: int | None = None
    """None: the suspension's own."""
    signal_maxlen: int = SIGNAL_LIST_LENGTH
    max_signals_per_execution: int | None = None
    """None: the policy's; 0: no limit."""

    def check(self) -> None:
        """Check the texts and numbers; the token is judged with the record."""
        super().check()
        for field in (
            "signal_category",
            "source_type",
            "source_identity",
            "correlation_id",
            "idempotency_key",
            "target_scope",
        ):
            checks.text(field, getattr(self, field), max_bytes=MAX_NAME_BYTES, empty=True)
        checks.text("waitpoint_token", self.waitpoint_token, max_bytes=MAX_TEXT_BYTES, empty=True)
        if self.created_at is not None:
            checks.integer("created_at", self.created_at, 0, MAX_INT)
        if self.resume_delay_ms is not None:
            checks.integer("resume_delay_ms", self.resume_delay_ms, 0, MAX_INT)
        checks.integer("signal_maxlen", self.signal_maxlen, 1, MAX_SIGNALS)
        if self.max_signals_per_execution is not None:
            checks.integer("max_signals_per_execution", self.max_signals_per_execution, 0, MAX_INT)

    @property
    def dedup_key(self) -> str:
        """The caller's key, unless its lifetime is nothing."""
        return self.idempotency_key if self.dedup_ttl_ms else ""

    def __repr__(self) -> str:
        return shown_text(self, waitpoint_token=redact)

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:  # type: ignore[override]
        return shown(self, waitpoint_token=redact)


BUFFERED = "buffered_for_pending_waitpoint"


@step(DeliverSignal)
def deliver_signal(space: Workspace, command: DeliverSignal) -> SignalAccepted | SignalDuplicate:
    """Take a signal from whoever holds the waitpoint's token; who does not learns nothing about the state."""
    run = space.execution(command.execution_id)
    waitpoint = space.get(WAITPOINT, run.execution_id, command.waitpoint_id)
    if waitpoint is None:
        raise refuse("invalid_token")
    verify(
        keyring(space),
        command.waitpoint_token,
        run.execution_id,
        waitpoint.waitpoint_id,
        waitpoint.waitpoint_key,
        waitpoint.created_at,
        space.now,
    )
    signal = _signal(
        space,
        command,
        waitpoint,
        signal_category=command.signal_category,
        source_type=command.source_type,
        source_identity=command.source_identity,
        correlation_id=command.correlation_id,
        idempotency_key=command.idempotency_key,
        target_scope=command.target_scope,
        created_at=space.now if command.created_at is None else command.created_at,
    )
    limit = command.max_signals_per_execution
    limit = run.policy.max_signals if limit is None else limit
    arrival = _Arrival(command, signal, command.signal_maxlen, limit, command.resume_delay_ms)
    return _accept(space, run, waitpoint, arrival)


class ApproveSignal(_SignalCommand, frozen=True, kw_only=True):
    """Deliver a signal as an operator, without the token."""

    lane_id: str = ""
    """When given, it must be the execution's lane."""
    key_suffix: str = ""
    source_identity: str = ""
    """Who is meant, where it is somebody else than the actor: the addressee of a link."""
    idempotency_key: str = ""
    """Recognises a repeat whatever the name of the signal; empty: the name and the suffix do."""

    def check(self) -> None:
        """Check lane and suffix too."""
        super().check()
        if self.lane_id:
            checks.lane(self.lane_id)
        for field in ("key_suffix", "source_identity", "idempotency_key"):
            checks.text(field, getattr(self, field), max_bytes=MAX_NAME_BYTES, empty=True)

    @property
    def dedup_key(self) -> str:
        """One approval per key, or per name and suffix, unless its lifetime is nothing."""
        if not self.dedup_ttl_ms:
            return ""
        return self.idempotency_key or f"approval:{self.signal_name}:{self.key_suffix}"


@step(ApproveSignal)
def approve_signal(space: Workspace, command: ApproveSignal) -> SignalAccepted | SignalDuplicate:
    """Take a signal from an operator, who needs no token."""
    run = space.execution(command.execution_id)
    if command.lane_id not in {"", run.lane_id}:
        raise invalid("lane_id", f"lane_mismatch: the execution is on lane {run.lane_id}")
    waitpoint = space.get(WAITPOINT, run.execution_id, command.waitpoint_id)
    if waitpoint is None:
        raise refuse("waitpoint_not_found", field="waitpoint_id")
    signal = _signal(
        space,
        command,
        waitpoint,
        signal_category="approval",
        source_type="operator",
        source_identity=command.source_identity,
        correlation_id="",
        idempotency_key=command.dedup_key,
        target_scope="execution",
        created_at=space.now,
    )
    arrival = _Arrival(command, signal, SIGNAL_LIST_LENGTH, run.policy.max_signals, None)
    return _accept(space, run, waitpoint, arrival)


def _signal(
    space: Workspace, command: DeliverSignal | ApproveSignal, waitpoint: Waitpoint, **given: Any
) -> Signal:
    return Signal(
        version=VERSION,
        signal_id=command.signal_id,
        waitpoint_id=waitpoint.waitpoint_id,
        number=waitpoint.signal_count + 1,
        signal_name=command.signal_name,
        payload=command.payload,
        payload_encoding=command.payload_encoding,
        accepted_at=space.now,
        observed_effect="",
        **given,
    )


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
    key = signal_key(command.execution_id, command.waitpoint_id, command.dedup_key)
    known = space.get(IDEMPOTENCY, *key)
    if known is None or known.expires_at <= space.now:
        return ""
    return msgpack.decode(known.value, type=str)


def _remember(space: Workspace, command: DeliverSignal | ApproveSignal) -> None:
    if command.dedup_key:
        key = signal_key(command.execution_id, command.waitpoint_id, command.dedup_key)
        until = min(space.now + command.dedup_ttl_ms, MAX_INT)
        space.put(IDEMPOTENCY, *key, value=Memo(msgpack.encode(command.signal_id), until))


def _consider(
    space: Workspace, run: Execution, waitpoint: Waitpoint, suspension: Suspension, arrival: _Arrival
) -> str:
    """Let the signal count; when it satisfies the condition, the work goes on in the same step."""
    condition, effect = offer_signal(suspension.condition, waitpoint, arrival.signal)
    suspension = replace(suspension, condition=condition, last_signal_at=space.now)
    space.put(SUSPENSION, run.execution_id, value=suspension)
    run = _record(space, run, waitpoint, arrival, effect)
    if effect == SATISFIED:
        delay_ms = suspension.resume_delay_ms if arrival.delay_ms is None else arrival.delay_ms
        end_suspension(
            space,
            run,
            "resumed",
            actor=arrival.actor,
            delay_ms=delay_ms,
            **satisfied_by(space, condition, arrival.signal),
        )
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
    space.several(SIGNAL, old)
    for key in old:
        space.put(SIGNAL, *key, value=None)
    space.put(SIGNAL, run.execution_id, waitpoint.waitpoint_id, signal.number, value=signal)
    counted = replace(
        waitpoint,
        signal_count=signal.number,
        last_signal_at=space.now,
        first_signal=first,
        matched_signal_count=waitpoint.matched_signal_count + (effect in MATCHED),
        satisfied_at=space.now if effect == SATISFIED else waitpoint.satisfied_at,
    )
    space.put(WAITPOINT, run.execution_id, waitpoint.waitpoint_id, value=counted)
    return space.put_execution(
        replace(run, signal_count=run.signal_count + 1, last_mutation_at=space.now),
        "signal",
        Cause(
            arrival.actor,
            details=(
                ("signal_id", signal.signal_id),
                ("signal_name", signal.signal_name),
                ("waitpoint_id", waitpoint.waitpoint_id),
                ("source_identity", signal.source_identity),
                ("effect", effect),
            ),
        ),
        before=run.public_state,
    )


class ObserveSignals(ExecutionQuestion[tuple[SignalView, ...]], frozen=True, kw_only=True):
    """Return the signals that satisfied the last suspension of the current attempt."""


@step(ObserveSignals)
def observe_signals(space: Workspace, question: ObserveSignals) -> tuple[SignalView, ...]:
    """Return the signals that satisfied the last suspension, as long as its attempt is the current one."""
    run = space.execution(question.execution_id)
    suspension = space.get(SUSPENSION, run.execution_id)
    if (
        suspension is None
        or suspension.attempt_index != run.attempt.index
        or suspension.close_reason != "resumed"
    ):
        return ()
    return satisfying(space, run, suspension)


class InboxPage(Page, frozen=True):
    """Open waitpoints of all executions, oldest first."""

    waitpoints: tuple[WaitpointView, ...]
    next: int


class ReadInbox(CursorQuestion[InboxPage], frozen=True, kw_only=True):
    """Return what waits for a signal, anywhere."""

    namespace: str = ""
    """Only of this one."""

    def check(self) -> None:
        """Check cursor, limit and namespace."""
        super().check()
        checks.name("namespace", self.namespace, empty=True)


INBOX: Final[IndexQuery[tuple[tuple[int, str, Waitpoint], ...]]] = IndexQuery("inbox")
"""Positions, executions and waitpoints."""


@step(ReadInbox)
def read_inbox(space: Workspace, question: ReadInbox) -> InboxPage:
    """Return the open waitpoints of all executions; a page may be short while there is a next one."""
    rows = space.get(INBOX, question.namespace, question.after, question.limit)
    suspensions = space.several(SUSPENSION, ((execution_id,) for _, execution_id, _ in rows))
    shown = tuple(
        waitpoint_view(execution_id, waitpoint, suspension)
        for (_, execution_id, waitpoint), suspension in zip(rows, suspensions, strict=True)
        if is_open(waitpoint, space.now)
    )
    return InboxPage(shown, rows[-1][0] if len(rows) == question.limit else 0)
