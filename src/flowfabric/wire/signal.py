"""Signals: with the token of their waitpoint, or by an operator without it; and who waits for one."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, UnsetType

from flowfabric.model.limits import DEFAULT_DEDUP_MS
from flowfabric.model.operations.signal import (
    ApproveSignal,
    DeliverSignal,
    ObserveSignals,
    ReadInbox,
    SignalAccepted,
    SignalDuplicate,
)
from flowfabric.model.wait_result import WaitSignal
from flowfabric.wire import payload
from flowfabric.wire.answers import View, one_of
from flowfabric.wire.classic import Base64, ByteList, to_bytes
from flowfabric.wire.examples import ATTEMPT, ID, NOW, WAITPOINT
from flowfabric.wire.fields import U64, Body, Clock, ExecutionIdText, Ms, Uuid, same_id
from flowfabric.wire.read import PageQuery
from flowfabric.wire.rights import Right
from flowfabric.wire.route import MEDIUM, RUN, Incoming, always, keyed, route
from flowfabric.wire.views import WaitpointRow

_SIGNALLED = one_of(Accepted=SignalAccepted, Duplicate=SignalDuplicate)


class SignalBody(Body, frozen=True):
    """A signal, with the token that opens its waitpoint."""

    execution_id: ExecutionIdText
    waitpoint_id: Uuid
    signal_id: Uuid
    signal_name: str
    signal_category: str
    source_type: str
    source_identity: str
    target_scope: str
    waitpoint_token: str
    now: Clock
    payload: ByteList | None = None
    payload_encoding: str | None = None
    correlation_id: str | None = None
    idempotency_key: str | None = None
    created_at: Ms | None = None
    dedup_ttl_ms: U64 | None = None
    resume_delay_ms: U64 | None = None
    max_signals_per_execution: U64 | None = None
    signal_maxlen: U64 | None = None


def _signal(call: Incoming, body: SignalBody) -> dict[str, Any]:
    same_id("execution_id", call.execution_id, body.execution_id)
    return {"payload": to_bytes("payload", body.payload)}


def _send_signal(command: DeliverSignal) -> dict[str, Any]:
    data = Base64(payload.to_base64(command.payload))
    return {"execution_id": command.execution_id, "now": 0, "payload": data}


DELIVER = route(
    "signal", "POST", f"{RUN}/signal", Right.SIGNAL, "Deliver a signal to a waitpoint.",
    command=DeliverSignal, body=SignalBody, answer=_SIGNALLED, limit=MEDIUM, classic=True, safe=keyed,
    takes=_signal, sends=_send_signal,
    example={
        "execution_id": ID, "waitpoint_id": WAITPOINT, "signal_id": ATTEMPT, "signal_name": "approved",
        "signal_category": "human", "source_type": "human", "source_identity": "ada", "payload": [123, 125],
        "target_scope": "waitpoint", "waitpoint_token": "k1:<64 hex digits>", "now": NOW,
    },
)  # fmt: skip


class ApproveBody(Body, frozen=True):
    """A signal of an operator, who needs no token of the waitpoint."""

    signal_name: str
    payload: Raw | UnsetType = UNSET
    payload_base64: str | UnsetType | None = UNSET
    idempotency_suffix: str = ""
    """One approval of a name counts once for each suffix."""
    payload_encoding: str | None = None
    """Of raw bytes only."""
    signal_id: Uuid | None = None
    """The caller's own id, so that a repeat is recognised."""
    source_identity: str = ""
    lane_id: str = ""
    """When given, it must be the execution's lane."""
    dedup_ttl_ms: U64 = DEFAULT_DEDUP_MS


def _approval(call: Incoming, body: ApproveBody) -> dict[str, Any]:
    data, encoding = payload.taken("payload", body.payload, body.payload_base64, body.payload_encoding, b"")
    return {"payload": data, "payload_encoding": encoding, "signal_id": body.signal_id or call.new_id()}


def _send_approval(command: ApproveSignal) -> dict[str, Any]:
    absent = {"payload": None, "payload_encoding": None}
    return absent | payload.sent("payload", command.payload, command.payload_encoding, "payload_encoding")


APPROVE = route(
    "approve", "POST", f"{RUN}/waitpoints/{{waitpoint_id}}/signal", Right.OPERATE,
    "Deliver a signal to a waitpoint as an operator.",
    command=ApproveSignal, body=ApproveBody, answer=_SIGNALLED, limit=MEDIUM, safe=always,
    names={"idempotency_suffix": "key_suffix"}, takes=_approval, sends=_send_approval,
    example={"signal_name": "approved", "payload": {"by": "ada"}},
)  # fmt: skip


class SignalList(View, frozen=True, kw_only=True):
    """Signals that ended a suspension."""

    signals: tuple[WaitSignal, ...]


LIST_SIGNALS = route(
    "signals",
    "GET",
    f"{RUN}/signals",
    Right.READ,
    "List the signals that ended the last suspension of the current attempt.",
    questions=(ObserveSignals,),
    answer=SignalList,
)


class InboxRow(WaitpointRow, frozen=True, kw_only=True):
    """An open waitpoint, and the execution that waits on it."""

    namespace: str
    lane_id: str
    execution_kind: str
    public_state: str
    reason: str | None
    age_ms: int


class InboxView(View, frozen=True, kw_only=True):
    """Open waitpoints of all executions, the oldest first."""

    waitpoints: tuple[InboxRow, ...]
    next_cursor: str | None


INBOX = route(
    "inbox", "GET", "/v1/waitpoints", Right.READ, "List every open waitpoint, the oldest first; never a token.",
    questions=(ReadInbox,), query=PageQuery, answer=InboxView, bound=True,
)  # fmt: skip
