"""Signals from outside: with the token of their waitpoint, or by an operator without it."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType

from flowfabric.model.errors import FlowFabricError
from flowfabric.model.limits import DEFAULT_DEDUP_MS
from flowfabric.model.operations.signal import ApproveSignal, DeliverSignal, SignalAccepted, SignalDuplicate
from flowfabric.server.call import Answer, Call
from flowfabric.server.errors import HttpError
from flowfabric.server.forms import (
    U64,
    ByteList,
    Clock,
    ExecutionIdText,
    Ms,
    Uuid,
    json_or_base64,
    path_uuid,
    same_id,
    to_bytes,
)
from flowfabric.server.roles import Need
from flowfabric.server.routing import MEDIUM, endpoint
from flowfabric.storage.minting import new_uuid


class SignalForm(Struct, frozen=True):
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


@endpoint("POST", "/v1/executions/{id}/signal", Need.SIGNAL, body=SignalForm, limit=MEDIUM, classic=True)
async def signal(call: Call) -> Answer:
    """Deliver a signal to a waitpoint."""
    body: SignalForm = call.body
    same_id("execution_id", call.execution_id, body.execution_id)
    given: dict[str, Any] = {
        name: getattr(body, name)
        for name in (
            "payload_encoding", "correlation_id", "idempotency_key", "created_at", "dedup_ttl_ms", "resume_delay_ms",
            "max_signals_per_execution", "signal_maxlen",
        )
        if getattr(body, name) is not None
    }  # fmt: skip
    command = DeliverSignal(
        execution_id=body.execution_id, waitpoint_id=body.waitpoint_id,
        signal_id=body.signal_id, signal_name=body.signal_name, payload=to_bytes("payload", body.payload),
        waitpoint_token=body.waitpoint_token, signal_category=body.signal_category,
        source_type=body.source_type, source_identity=body.source_identity, target_scope=body.target_scope,
        actor=call.actor, **given,
    )  # fmt: skip
    return _signalled(await call.apply(command))


def _signalled(reply: SignalAccepted | SignalDuplicate) -> Answer:
    if isinstance(reply, SignalDuplicate):
        return Answer({"Duplicate": {"existing_signal_id": reply.existing_signal_id}})
    return Answer({"Accepted": {"signal_id": reply.signal_id, "effect": reply.effect}})


class Approval(Struct, frozen=True):
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


@endpoint(
    "POST", "/v1/executions/{id}/waitpoints/{waitpoint_id}/signal", Need.OPERATE, body=Approval, limit=MEDIUM
)
async def approve(call: Call) -> Answer:
    """Deliver a signal to a waitpoint as an operator."""
    body: Approval = call.body
    payload, encoding = json_or_base64("payload", body.payload, body.payload_base64, b"")
    command = ApproveSignal(
        execution_id=call.execution_id,
        waitpoint_id=path_uuid("waitpoint_id", call.path["waitpoint_id"]),
        signal_id=body.signal_id or new_uuid(), signal_name=body.signal_name, payload=payload or b"",
        payload_encoding=encoding or body.payload_encoding or "", key_suffix=body.idempotency_suffix,
        source_identity=body.source_identity, lane_id=body.lane_id, dedup_ttl_ms=body.dedup_ttl_ms,
        actor=call.actor,
    )  # fmt: skip
    try:
        return _signalled(await call.apply(command))
    except FlowFabricError as error:
        answer_missing_waitpoint(error)
        raise


def answer_missing_waitpoint(error: FlowFabricError) -> None:
    """Answer 404 where nobody knows the waitpoint that the path names."""
    if error.code == "waitpoint_not_found":
        raise HttpError(404, error.text, error.code, kind=error.code, field="waitpoint_id") from error
