"""JSON documents of executions, attempts, waitpoints, kinds and events, which the server and `ff --json` share."""

from __future__ import annotations

import base64
from typing import Any, Final

import msgspec

from flowfabric.model.operations.suspend_waitpoint import WaitpointView
from flowfabric.model.records import Attempt, Event, Execution, Kind
from flowfabric.model.state import Blocking

JSON: Final = "json"


def embedded(data: bytes) -> msgspec.Raw | None:
    """Return bytes that are one JSON value so that they can be embedded as they are; None for other bytes."""
    try:
        data.decode()  # msgspec does not check the text that it copies
        return msgspec.json.decode(data, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def json_or_base64(name: str, data: bytes, encoding: str) -> dict[str, Any]:
    """Return stored bytes as the field `<name>` if they are JSON, otherwise as `<name>_base64`."""
    value = embedded(data) if encoding == JSON else None
    if value is None:
        return {f"{name}_base64": base64.b64encode(data).decode()}
    if bytes(value) == data:
        return {name: value}
    # White space around a value is not part of it; base64 has the bytes as they are stored.
    return {name: value, f"{name}_base64": base64.b64encode(data).decode()}


def present(**fields: Any) -> dict[str, Any]:
    """Return the fields that have a value; unset fields are absent from documents, not null."""
    return {name: value for name, value in fields.items() if value not in {"", 0, None, -1}}


def vector(run: Execution) -> dict[str, str]:
    """Return the state vector of an execution: its seven dimensions."""
    return {
        "lifecycle_phase": run.lifecycle_phase,
        "ownership_state": run.ownership_state,
        "eligibility_state": run.eligibility_state,
        "blocking_reason": run.blocking_reason,
        "terminal_outcome": run.terminal_outcome,
        "attempt_state": run.attempt_state,
        "public_state": run.public_state,
    }


def summary(run: Execution) -> dict[str, Any]:
    """Return an execution as an entry of a list."""
    shown = {
        "execution_id": run.execution_id,
        "namespace": run.namespace,
        "lane_id": run.lane_id,
        "execution_kind": run.execution_kind,
        "public_state": run.public_state,
        "priority": run.priority,
        "created_at": run.created_at,
        "attempt_index": max(run.attempt.index, 0),
        "tags": dict(run.tags),
    }
    if run.progress_pct >= 0:
        shown["progress_pct"] = run.progress_pct
    if run.blocking_reason is not Blocking.NONE:
        shown["blocking_reason"] = run.blocking_reason
    return shown | present(started_at=run.started_at, completed_at=run.completed_at, flow_id=run.flow_id)


def waitpoint(view: WaitpointView) -> dict[str, Any]:
    """Return an open waitpoint, without its token."""
    details = {"details": msgspec.Raw(view.details.encode())} if view.details else {}
    return {
        "waitpoint_id": view.waitpoint_id,
        "waitpoint_key": view.waitpoint_key,
        "state": view.state,
        "required_signal_names": view.required_signal_names,
        "created_at": view.created_at,
        "execution_id": view.execution_id,
        "token_kid": view.token_kid,
        "token_fingerprint": view.token_fingerprint,
        **present(activated_at=view.activated_at, expires_at=view.expires_at, message=view.message),
        **details,
    }


def kind(record: Kind) -> dict[str, Any]:
    """Return a kind; fields that it does not set are absent."""
    fields: dict[str, Any] = {
        "kind": record.kind,
        "namespace": record.namespace,
        "tags": dict(record.tags),
        "required_capabilities": record.required_capabilities,
        "published_at": record.published_at,
        "published_by": record.published_by,
        "digest": record.digest,
    }
    if record.priority is not None:
        fields["priority"] = record.priority
    if record.policy:
        fields["policy"] = msgspec.Raw(record.policy.encode())
    if record.input_schema:
        fields["input_schema"] = msgspec.Raw(record.input_schema.encode())
    return fields | present(
        lane=record.lane,
        fairness_key=record.fairness_key,
        fairness_weight=record.fairness_weight,
        description=record.description,
    )


def event(line: Event) -> dict[str, Any]:
    """Return one event of a history."""
    shown: dict[str, Any] = {
        "seq": line.seq,
        "at": line.at,
        "event": line.event,
        "attempt_index": max(line.attempt_index, 0),
        "lease_epoch": line.lease_epoch,
        "actor": line.actor,
        "from": line.from_state or None,
        "to": line.to_state or None,
        "details": dict(line.details),
    }
    return shown | present(reason=line.reason)


def attempt(each: Attempt) -> dict[str, Any]:
    """Return one attempt."""
    fence = {"attempt_id": each.attempt_id, "lease_epoch": each.lease_epoch} if each.attempt_id else {}
    fields = {"attempt_index": each.index, **fence, "attempt_type": each.kind, "attempt_state": each.life}
    optional = present(
        started_at=each.started_at,
        resumed_at=each.resumed_at,
        suspended_at=each.suspended_at,
        ended_at=each.ended_at,
        worker_id=each.worker_id,
        worker_instance_id=each.worker_instance_id,
        failure_reason=each.failure_reason,
        failure_category=each.failure_category,
        failure_detail=each.failure_detail,
        ended_by=each.ended_by,
        retry_at=each.delay_until,
    )
    return fields | _lineage(each) | optional


def _lineage(each: Attempt) -> dict[str, Any]:
    """Return what an attempt follows, with the field names of its type."""
    if each.kind == "replay":
        return {
            "replay_reason": each.lineage_reason,
            "replay_requested_by": each.requested_by,
            "replayed_from_attempt_index": each.previous_index if each.previous_index >= 0 else None,
        }
    if each.kind in {"retry", "reclaim"}:
        return {
            f"{each.kind}_reason": each.lineage_reason,
            "previous_attempt_index": each.previous_index if each.previous_index >= 0 else None,
        }
    return {}
