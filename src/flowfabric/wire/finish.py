"""Ending an attempt or an execution."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, UnsetType

from flowfabric.model.operations.finish import (
    Cancel,
    Cancelled,
    Complete,
    Completed,
    Delay,
    Delayed,
    Fail,
    Moved,
    RetryScheduled,
    TerminalFailed,
    WaitChildren,
)
from flowfabric.wire import payload
from flowfabric.wire.answers import one_of
from flowfabric.wire.errors import bad_request
from flowfabric.wire.examples import FENCE, ID, NOW
from flowfabric.wire.fields import (
    U64,
    Body,
    Clock,
    ExecutionIdText,
    FenceBody,
    HolderBody,
    Integer,
    Ms,
    Uuid,
    later,
)
from flowfabric.wire.rights import Right
from flowfabric.wire.route import PAYLOAD, RUN, Incoming, fenced, route


class CompleteBody(HolderBody, frozen=True):
    """The result, as JSON or as raw bytes; there may be none."""

    result: Raw | UnsetType = UNSET
    result_base64: str | UnsetType | None = UNSET
    encoding: str | None = None
    """Of raw bytes only."""


def _result(_: Incoming, body: CompleteBody) -> dict[str, Any]:
    result, encoding = payload.taken("result", body.result, body.result_base64, body.encoding, None)
    return {"result": result, "result_encoding": "" if result is None else encoding}


def _send_result(command: Complete) -> dict[str, Any]:
    if command.result is None:
        return {"result": None}
    return {"result": None} | payload.sent("result", command.result, command.result_encoding)


COMPLETE = route(
    "complete", "POST", f"{RUN}/complete", Right.WORK, "End the execution well.",
    command=Complete, body=CompleteBody, answer=one_of(Completed), limit=PAYLOAD, safe=fenced, takes=_result,
    sends=_send_result,
    example={"fence": FENCE, "result": {"ok": True}},
    examples={200: {"Completed": {"execution_id": ID, "public_state": "completed"}}},
)  # fmt: skip


class FailBody(HolderBody, frozen=True, kw_only=True):
    """What went wrong."""

    reason: str
    category: str = "error"
    detail: str | None = None
    """A traceback, or whatever else helps."""
    retry_after_ms: Integer | None = None


FAIL = route(
    "fail", "POST", f"{RUN}/fail", Right.WORK,
    "End the attempt with a failure; the policy decides whether another follows.",
    command=Fail, body=FailBody, answer=one_of(TerminalFailed, RetryScheduled), safe=fenced,
    example={"fence": FENCE, "reason": "no such image", "category": "error"},
    examples={200: {"RetryScheduled": {"delay_until": NOW, "next_attempt_index": 1}}},
)  # fmt: skip


class DelayBody(HolderBody, frozen=True):
    """When to go on: after some time, or at a time."""

    delay_ms: U64 | None = None
    delay_until: Ms | None = None


def _delay(call: Incoming, body: DelayBody) -> dict[str, Any]:
    until = later(call.now(), "delay", body.delay_ms, body.delay_until)
    if until is None:
        raise bad_request("delay_ms: give delay_ms or delay_until", field="delay_ms")
    return {"delay_until": until}


DELAY = route(
    "delay", "POST", f"{RUN}/delay", Right.WORK, "Give the lease back, and go on later with the same attempt.",
    command=Delay, body=DelayBody, answer=one_of(Delayed), takes=_delay,
    example={"fence": FENCE, "delay_ms": 60000},
)  # fmt: skip
WAIT_CHILDREN = route(
    "wait_children", "POST", f"{RUN}/wait-children", Right.WORK,
    "Give the lease back until the children have ended.",
    command=WaitChildren, body=HolderBody, answer=one_of(Moved), example={"fence": FENCE},
)  # fmt: skip


class CancelBody(Body, frozen=True):
    """Ends an execution. The holder sends its fence; anybody else names the execution again, a reason and the time."""

    execution_id: ExecutionIdText | None = None
    reason: str | None = None
    source: str | None = None
    lease_id: Uuid | None = None
    lease_epoch: U64 | None = None
    attempt_id: Uuid | None = None
    now: Clock | None = None
    fence: FenceBody | None = None


def _send_cancel(command: Cancel) -> dict[str, Any]:
    return {"execution_id": command.execution_id, "now": None if command.fence.given else 0}


CANCEL = route(
    "cancel", "POST", f"{RUN}/cancel", Right.WORK, "Cancel an execution.",
    command=Cancel, body=CancelBody, answer=one_of(Cancelled), classic=True, safe=fenced, sends=_send_cancel,
    example={"execution_id": ID, "reason": "not needed", "now": NOW},
)  # fmt: skip
