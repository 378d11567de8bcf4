"""What is sent: the bodies of operations, made from their commands."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any

from msgspec import Raw

from flowfabric.client.conditions import condition_fields
from flowfabric.client.payloads import is_value, put
from flowfabric.model import ids
from flowfabric.model.command import HolderCommand
from flowfabric.model.ids import Partitions
from flowfabric.model.operations.claim import Claim
from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.operations.finish import Cancel, Complete
from flowfabric.model.operations.kind import PublishKind
from flowfabric.model.operations.signal import ApproveSignal, DeliverSignal
from flowfabric.model.operations.step import PutStep
from flowfabric.model.operations.stream import AppendFrames, FrameInput
from flowfabric.model.operations.suspend import Suspend
from flowfabric.model.operations.suspend_waitpoint import CreateWaitpoint

Body = Callable[[Any], dict[str, Any]]


def fields(*names: str, **renamed: str) -> Body:
    """Send these fields; `renamed` says under which other names. What is none is left out."""
    pairs = [(name, name) for name in names] + [(field, name) for name, field in renamed.items()]

    def body(command: Any) -> dict[str, Any]:
        values = ((name, getattr(command, field)) for field, name in pairs)
        return {name: value for name, value in values if value is not None}

    return body


def held(*names: str) -> Body:
    """Send the proof of the holder, and these fields."""
    rest = fields(*names)
    return lambda command: proof(command) | rest(command)


def proof(command: HolderCommand[Any]) -> dict[str, Any]:
    """Write the parts of the fence that there are, and in whose name the command is sent."""
    fence = command.fence
    parts: dict[str, Any] = {"lease_id": fence.lease_id, "attempt_id": fence.attempt_id}
    given = {name: part for name, part in parts.items() if part}
    if fence.lease_epoch >= 0:
        given["lease_epoch"] = fence.lease_epoch
    return {"source": command.source} | ({"fence": given} if fence.given else {})


def submission(command: CreateExecution, partitions: Partitions) -> dict[str, Any]:
    """Write a submission; its id makes a repeat a duplicate, and the defaults of its kind are in it already."""
    body: dict[str, Any] = {
        "kind": command.execution_kind, "lane": command.lane_id, "namespace": command.namespace,
        "idempotency_key": command.idempotency_key or None, "creator": command.creator_identity or None,
        "tags": dict(command.tags), "priority": clamped(command.priority), "delay_until": command.delay_until,
        "delay_ms": command.delay_ms, "deadline_at": command.execution_deadline_at, "flow_id": command.flow_id or None,
        "budget_ids": command.budget_ids or None, "quota_ids": command.quota_ids or None,
        "fairness_key": command.fairness_key or None, "kind_defaults": False,
    }  # fmt: skip
    body = {name: value for name, value in body.items() if value is not None}
    body |= _policy(command.policy)
    body |= put("input", command.input_payload, command.payload_encoding, "payload_encoding")
    return body | _name_of(command, partitions)


def _policy(text: bytes) -> dict[str, Any]:
    if not text:
        return {}
    if text != b"null" and is_value(text):
        return {"policy": Raw(text)}
    return {"policy_base64": b64encode(text).decode()}  # the engine says what is wrong with it


def clamped(priority: int | None) -> int | None:
    """Bring a priority into what a request can say; the engine keeps it between 0 and 9000 anyway."""
    return None if priority is None else max(-(2**31), min(priority, 2**31 - 1))


def _name_of(command: CreateExecution, partitions: Partitions) -> dict[str, str]:
    """Say which id is meant: by its UUID where the server would place it alike, else whole."""
    _, uuid = ids.parse_execution_id(command.execution_id)
    key = command.idempotency_key
    placed = ids.for_key(command.namespace, key, uuid, partitions) if key else ids.spread(uuid, partitions)
    return {"uuid": uuid} if placed == command.execution_id else {"execution_id": command.execution_id}


def kind(command: PublishKind) -> dict[str, Any]:
    """Write a kind; what it does not say is left out."""
    body: dict[str, Any] = {
        "namespace": command.namespace, "lane": command.lane, "tags": dict(command.tags),
        "required_capabilities": command.required_capabilities, "fairness_key": command.fairness_key,
        "policy": Raw(command.policy.encode()), "input_schema": Raw(command.input_schema.encode()),
        "description": command.description,
    }  # fmt: skip
    said = {name: value for name, value in body.items() if value not in ("", (), {}, Raw(b""))}
    numbers = {"priority": command.priority, "fairness_weight": command.fairness_weight}
    return said | {name: number for name, number in numbers.items() if number is not None}


def claim(command: Claim) -> dict[str, Any]:
    """Write a claim; without an id of its own its mint makes a repeat recognisable."""
    wanted = fields("worker_instance_id", "lanes", "kinds", "capabilities", "max_tasks", "lease_ttl_ms")
    namespace = {"namespace": command.namespace} if command.namespace else {}
    return wanted(command) | namespace | {"claim_id": command.claim_id or command.mint}


def completion(command: Complete) -> dict[str, Any]:
    """Write a result, or that there is none."""
    if command.result is None:
        return proof(command)
    return proof(command) | put("result", command.result, command.result_encoding)


def cancellation(command: Cancel) -> dict[str, Any]:
    """Write a cancel: of the holder with its fence, of anybody else without."""
    body = proof(command) | {"execution_id": command.execution_id, "reason": command.reason}
    return body if command.fence.given else body | {"now": 0}


def suspension(command: Suspend) -> dict[str, Any]:
    """Write a suspension with waitpoints of the caller's."""
    rest = held(
        "reason_code", "timeout_ms", "timeout_at", "timeout_behavior", "idempotency_key", "step_name",
        "resume_delay_ms", "suspension_id", "waitpoints", "requested_by", "resume_policy_json",
        "continuation_metadata_pointer", "attempt_index",
    )  # fmt: skip
    return rest(command) | condition_fields(command.condition) | _question(command)


def waitpoint(command: CreateWaitpoint) -> dict[str, Any]:
    """Write a waitpoint that is opened ahead."""
    return held("waitpoint_id", "waitpoint_key", "expires_in_ms")(command) | _question(command)


def _question(command: Suspend | CreateWaitpoint) -> dict[str, Any]:
    """Write what whoever is to answer is shown."""
    details = {"details": Raw(command.details.encode())} if command.details else {}
    return details | ({"message": command.message} if command.message else {})


def signal(command: DeliverSignal) -> dict[str, Any]:
    """Write a signal with the token of its waitpoint."""
    rest = fields(
        "execution_id", "waitpoint_id", "signal_id", "signal_name", "signal_category", "source_type",
        "source_identity", "target_scope", "waitpoint_token", "payload_encoding", "correlation_id",
        "idempotency_key", "created_at", "dedup_ttl_ms", "resume_delay_ms", "max_signals_per_execution",
        "signal_maxlen",
    )  # fmt: skip
    return rest(command) | {"now": 0, "payload": {"base64": b64encode(command.payload).decode()}}


def approval(command: ApproveSignal) -> dict[str, Any]:
    """Write a signal of an operator."""
    rest = fields(
        "signal_name", "signal_id", "source_identity", "lane_id", "dedup_ttl_ms", idempotency_suffix="key_suffix"
    )  # fmt: skip
    return rest(command) | put("payload", command.payload, command.payload_encoding, "payload_encoding")


def frames(command: AppendFrames) -> dict[str, Any]:
    """Write frames."""
    return held("attempt_index")(command) | {"frames": [_frame(frame) for frame in command.frames]}


_FRAME = fields(
    "frame_type", "mode", "ts", "encoding", "correlation_id", "source", "metadata_json", "patch_kind",
    "retention_maxlen", "ttl_ms", "maxlen_floor", "maxlen_ceiling", "ema_alpha", "step",
)  # fmt: skip


def _frame(frame: FrameInput) -> dict[str, Any]:
    try:
        return _FRAME(frame) | {"payload": frame.payload.decode()}
    except UnicodeDecodeError:
        return _FRAME(frame) | {"payload_base64": b64encode(frame.payload).decode()}


def step(command: PutStep) -> dict[str, Any]:
    """Write the result of a step."""
    named = held("call_index")(command) | {"name": command.step_name}
    return named | put("result", command.result, command.encoding)
