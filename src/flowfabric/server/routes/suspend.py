"""Giving the lease back until signals come."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from flowfabric.engine import every_waitpoint
from flowfabric.model.condition_json import parse_condition
from flowfabric.model.conditions import Condition, friendly_condition, list_condition, referenced_keys
from flowfabric.model.errors import invalid
from flowfabric.model.operations.suspend import Binding, SatisfiedAtOnce, Suspend, Suspended
from flowfabric.model.operations.suspend_waitpoint import CreateWaitpoint, OpenWaitpoint
from flowfabric.server import render
from flowfabric.server.call import Answer, Call
from flowfabric.server.forms import Integer, Ms, Uuid, optional_json
from flowfabric.server.roles import Need
from flowfabric.server.routes.holder import Holding, holding
from flowfabric.server.routing import endpoint
from flowfabric.storage.minting import new_uuid


class Suspension(Holding, frozen=True):
    """What to wait for: signals by name, or a whole condition."""

    reason_code: str = "waiting_for_signal"
    signals: tuple[str, ...] = ()
    mode: str | None = None
    count: Integer | None = None
    distinct: str | None = None
    condition: Any = None
    timeout_ms: Integer | None = None
    timeout_at: Ms | None = None
    timeout_behavior: str | None = None
    waitpoint_key: str | None = None
    use_waitpoint_id: Uuid | None = None
    idempotency_key: str | None = None
    step_name: str | None = None
    resume_delay_ms: Integer = 0
    suspension_id: Uuid | None = None
    """The caller's own ids, so that a repeat is recognised; `waitpoints` takes the place of `use_waitpoint_id`."""
    waitpoints: tuple[Binding, ...] | None = None
    allow_operator_override: bool = True
    requested_by: str = "worker"
    resume_policy_json: str = ""
    continuation_metadata_pointer: str = ""
    attempt_index: Integer | None = None
    message: str = ""
    """What whoever is to answer is shown."""
    details: msgspec.Raw | UnsetType = UNSET
    """More about it: an object."""


@endpoint("POST", "/v1/executions/{id}/suspend", Need.WORK, body=Suspension)
async def suspend(call: Call) -> Answer:
    """Give the lease back until a condition on signals holds; keep it where that is so already."""
    body: Suspension = call.body
    held = holding(call)
    if body.waitpoints is None:
        condition, waitpoints = _plan(body, await _pending_key(call, body))
    else:
        condition, waitpoints = _given_condition(body), body.waitpoints
    if not body.allow_operator_override:
        condition = replace(condition, operator_override=False)
    outcome = await call.apply(
        Suspend(
            **held, suspension_id=body.suspension_id or new_uuid(), waitpoints=waitpoints, condition=condition,
            reason_code=body.reason_code, timeout_ms=body.timeout_ms, timeout_at=body.timeout_at,
            timeout_behavior=body.timeout_behavior, idempotency_key=body.idempotency_key or "",
            step_name=body.step_name or "", resume_delay_ms=body.resume_delay_ms,
            requested_by=body.requested_by, resume_policy_json=body.resume_policy_json,
            continuation_metadata_pointer=body.continuation_metadata_pointer,
            attempt_index=body.attempt_index, message=body.message, details=optional_json(body.details).decode(),
        )
    )  # fmt: skip
    return Answer(suspension_shape(outcome))


async def _pending_key(call: Call, body: Suspension) -> str:
    """Look up the key of a waitpoint made ahead, where signals on it are to be counted."""
    if body.use_waitpoint_id is None or body.waitpoint_key or not body.distinct:
        return body.waitpoint_key or ""
    found = await call.server.live.read_large(every_waitpoint(call.store, call.execution_id))
    keys = [w.waitpoint_key for w in found if w.waitpoint_id == body.use_waitpoint_id]
    # One that is not open is refused by the suspension itself, in its own words; any key will do for that.
    return keys[0] if keys else generated_key(body.use_waitpoint_id)


def _given_condition(body: Suspension) -> Condition:
    """Read the condition of a caller that brings its own waitpoints: it says itself which one it listens on."""
    if body.condition is not None:
        return parse_condition(body.condition)
    # Names are judged as everywhere; an empty one takes any signal, and the others keep their own slots.
    friendly_condition([name for name in body.signals if name], "any", 0, "", ())
    return list_condition(body.signals, body.mode or "any", body.count or 1, body.waitpoint_key or "")


def _plan(body: Suspension, key: str) -> tuple[Condition, tuple[Binding, ...]]:
    """Turn what was asked for into a condition and the waitpoints that it listens on, the primary first."""
    primary_id = body.use_waitpoint_id or new_uuid()
    pending = body.use_waitpoint_id is not None
    if body.condition is not None:
        if body.signals or body.mode or body.count or body.distinct:
            raise invalid("condition", "give a condition, or signals with mode, count and distinct, not both")
        condition = parse_condition(body.condition)
        keys = referenced_keys(condition)
        if keys and key and key not in keys:
            raise invalid("waitpoint_key", "the condition does not name it")
        first = keys[0] if keys else key
    else:
        first = key if pending else key or generated_key(primary_id)
        listens = (first,) if first else ()
        condition = friendly_condition(
            body.signals, body.mode or "any", body.count or 0, body.distinct or "", listens
        )
        keys = listens
    primary = Binding(primary_id, first if pending else first or generated_key(primary_id), pending)
    return condition, (primary, *(Binding(new_uuid(), other) for other in keys[1:]))


def generated_key(waitpoint_id: str) -> str:
    """Name a waitpoint that was given no name."""
    return f"wpk:{waitpoint_id}"


def suspension_shape(outcome: Suspended | SatisfiedAtOnce) -> dict[str, Any]:
    """Show what a suspension led to; the tokens are for the holder alone."""
    shape = {
        "suspension_id": outcome.suspension_id,
        **waitpoint_shape(outcome.waitpoint),
        "additional_waitpoints": [waitpoint_shape(other) for other in outcome.additional_waitpoints],
    }
    if isinstance(outcome, Suspended):
        return {"Suspended": shape}
    return {"AlreadySatisfied": shape | {"resume_signals": render.signals(outcome.resume_signals)}}


def waitpoint_shape(waitpoint: OpenWaitpoint) -> dict[str, Any]:
    """Show a waitpoint with its token."""
    return {
        "waitpoint_id": waitpoint.waitpoint_id,
        "waitpoint_key": waitpoint.waitpoint_key,
        "waitpoint_token": waitpoint.waitpoint_token,
    }


class WaitpointForm(Holding, frozen=True, kw_only=True):
    """A waitpoint to open ahead of the suspension that will use it."""

    expires_in_ms: Integer
    waitpoint_key: str | None = None
    waitpoint_id: Uuid | None = None
    """The caller's own id, so that a repeat is recognised."""
    message: str = ""
    """What whoever is to answer is shown."""
    details: msgspec.Raw | UnsetType = UNSET
    """More about it: an object."""


@endpoint("POST", "/v1/executions/{id}/waitpoints", Need.WORK, body=WaitpointForm)
async def create_waitpoint(call: Call) -> Answer:
    """Open a waitpoint whose token can be handed out before suspending."""
    body: WaitpointForm = call.body
    waitpoint_id = body.waitpoint_id or new_uuid()
    created = await call.apply(
        CreateWaitpoint(
            **holding(call), waitpoint_id=waitpoint_id, expires_in_ms=body.expires_in_ms,
            waitpoint_key=body.waitpoint_key or generated_key(waitpoint_id),
            message=body.message, details=optional_json(body.details).decode(),
        )
    )  # fmt: skip
    return Answer({"Created": waitpoint_shape(created.waitpoint)})
