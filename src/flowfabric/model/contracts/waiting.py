"""Suspension: waitpoints, signals, and what resumes an execution."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from flowfabric.model import checks
from flowfabric.model.conditions import Condition, is_sentinel, referenced_keys
from flowfabric.model.contracts.base import ExecutionCommand, HolderCommand, Need
from flowfabric.model.contracts.lease import SignalView
from flowfabric.model.errors import invalid
from flowfabric.model.ids import check_uuid
from flowfabric.model.limits import (
    DEFAULT_DEDUP_MS,
    MAX_INT,
    MAX_NAME_BYTES,
    MAX_QUESTION_BYTES,
    MAX_QUESTION_DETAILS_BYTES,
    MAX_SIGNAL_BYTES,
    MAX_SIGNALS,
    MAX_TEXT_BYTES,
    SIGNAL_LIST_LENGTH,
)
from flowfabric.model.redaction import redact, shown, shown_text
from flowfabric.model.state import Public

TIMEOUT_BEHAVIORS = ("fail", "cancel", "expire", "auto_resume_with_timeout_signal", "auto_resume", "escalate")
KEYRING: Need = ("keyring", ())


class Binding(Struct, frozen=True):
    """A waitpoint to suspend on: a fresh one with its key, or a pending one by its id."""

    waitpoint_id: str
    waitpoint_key: str = ""
    pending: bool = False


def _check_question(message: str, details: str) -> None:
    """Check what a waitpoint shows to whoever is to answer."""
    checks.lines("message", message, MAX_QUESTION_BYTES)
    if not checks.text("details", details, max_bytes=MAX_QUESTION_DETAILS_BYTES, empty=True):
        return
    try:
        msgspec.json.decode(details, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError) as error:
        raise invalid("details", "must be a JSON object") from error


class OpenWaitpoint(Struct, frozen=True):
    """A waitpoint and the token that signals must carry. The token is a secret: `repr` hides it."""

    waitpoint_id: str
    waitpoint_key: str
    waitpoint_token: str

    def __repr__(self) -> str:
        return shown_text(self, waitpoint_token=redact)

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:  # type: ignore[override]
        return shown(self, waitpoint_token=redact)


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
        _check_question(self.message, self.details)
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

    def needs(self) -> tuple[Need, ...]:
        """The execution, its suspension, the keys, its waitpoints, and what the idempotency key remembers."""
        needs: tuple[Need, ...] = (*super().needs(), ("suspension", (self.execution_id,)), KEYRING)
        if self.idempotency_key:
            needs = (*needs, suspend_memo(self.execution_id, self.idempotency_key))
        if self.step_name:
            needs = (*needs, ("step", (self.execution_id, self.step_name)))
        return needs + tuple(("waitpoint", (self.execution_id, b.waitpoint_id)) for b in self.waitpoints)


def suspend_memo(execution_id: str, key: str) -> Need:
    """Name the memo of a suspension key."""
    return "memo", ("suspend", execution_id, key)


class WaitpointCreated(Struct, frozen=True):
    """A pending waitpoint whose token can be handed out before suspending."""

    waitpoint: OpenWaitpoint


class CreateWaitpoint(HolderCommand[WaitpointCreated], frozen=True, kw_only=True):
    """Open a waitpoint ahead of the suspension that will use it."""

    waitpoint_id: str
    waitpoint_key: str
    expires_in_ms: int
    message: str = ""
    """What it shows to whoever is to answer."""
    details: str = ""
    """More about it: a JSON object as text."""

    def check(self) -> None:
        """Check id, key, time and question."""
        super().check()
        _check_question(self.message, self.details)
        check_uuid("waitpoint_id", self.waitpoint_id)
        checks.name("waitpoint_key", self.waitpoint_key)
        checks.integer("expires_in_ms", self.expires_in_ms, 1, MAX_INT)

    def needs(self) -> tuple[Need, ...]:
        """The execution, the keys, and a waitpoint of that id."""
        return (*super().needs(), KEYRING, ("waitpoint", (self.execution_id, self.waitpoint_id)))


class WaitpointClosed(Struct, frozen=True):
    """The waitpoint is closed; `already` says that it was before."""

    already: bool


class CloseWaitpoint(ExecutionCommand[WaitpointClosed], frozen=True, kw_only=True):
    """Close a pending waitpoint that will not be used."""

    waitpoint_id: str
    reason: str = "proactive_close"

    def check(self) -> None:
        """Check id and reason."""
        super().check()
        check_uuid("waitpoint_id", self.waitpoint_id)
        checks.text("reason", self.reason, max_bytes=MAX_TEXT_BYTES)

    def needs(self) -> tuple[Need, ...]:
        """The execution and the waitpoint."""
        return (*super().needs(), ("waitpoint", (self.execution_id, self.waitpoint_id)))


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

    def needs(self) -> tuple[Need, ...]:
        """The execution, its suspension, the waitpoint, the keys, and what the idempotency key remembers."""
        needs: tuple[Need, ...] = (
            *super().needs(),
            ("suspension", (self.execution_id,)),
            ("waitpoint", (self.execution_id, self.waitpoint_id)),
            KEYRING,
        )
        if not self.dedup_key:
            return needs
        return (*needs, signal_memo(self.execution_id, self.waitpoint_id, self.dedup_key))


def signal_memo(execution_id: str, waitpoint_id: str, key: str) -> Need:
    """Name the memo of a signal key; callers choose waitpoint ids, so the execution belongs to the name."""
    return "memo", ("signal", execution_id, waitpoint_id, key)


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
            "signal_category", "source_type", "source_identity", "correlation_id", "idempotency_key",
            "target_scope",
        ):  # fmt: skip
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


class Resumed(Struct, frozen=True):
    """The execution goes on."""

    public_state: Public


class ResumeExecution(ExecutionCommand[Resumed], frozen=True, kw_only=True):
    """Resume a suspended execution as an operator (T20, T21)."""

    resume_delay_ms: int = 0

    def check(self) -> None:
        """Check the delay."""
        super().check()
        checks.integer("resume_delay_ms", self.resume_delay_ms, 0, MAX_INT)

    def needs(self) -> tuple[Need, ...]:
        """The execution and its suspension."""
        return (*super().needs(), ("suspension", (self.execution_id,)))
