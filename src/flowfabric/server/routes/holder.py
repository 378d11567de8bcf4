"""What the holder of a lease does with it."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from flowfabric.model.command import NO_FENCE, Fence
from flowfabric.model.limits import DEFAULT_LEASE_TTL_MS
from flowfabric.model.operations.finish import Complete, Delay, Fail, RetryScheduled, WaitChildren
from flowfabric.model.operations.lease import Release, Renew, UpdateProgress
from flowfabric.server.call import Answer, Call
from flowfabric.server.errors import bad_request
from flowfabric.server.forms import U64, FenceForm, Integer, Ms, json_or_base64, later
from flowfabric.server.roles import Need
from flowfabric.server.routing import PAYLOAD, endpoint

HOLDER_SOURCES: Final = ("worker", "lease_holder")


class Holding(Struct, frozen=True, kw_only=True):
    """The fence that every operation of a holder carries."""

    fence: FenceForm | None = None
    source: str = "worker"
    """In whose name; anybody but the holder must be an operator."""

    def proof(self) -> Fence:
        """Return the fence as it was sent; a missing or partial one is refused with the execution at hand."""
        return NO_FENCE if self.fence is None else self.fence.fence()


def holding(call: Call) -> dict[str, Any]:
    """Return what every command of a holder begins with: its execution, its fence, and in whose name it is sent."""
    source = call.body.source
    if source not in HOLDER_SOURCES:
        call.demand(Need.OPERATE)
    return {
        "execution_id": call.execution_id,
        "fence": call.body.proof(),
        "source": source,
        "actor": call.behalf,
    }


class Completion(Holding, frozen=True):
    """The result, as JSON or as raw bytes; there may be none."""

    result: msgspec.Raw | UnsetType = UNSET
    result_base64: str | UnsetType | None = UNSET
    encoding: str | None = None
    """Of raw bytes only."""


@endpoint("POST", "/v1/executions/{id}/complete", Need.WORK, body=Completion, limit=PAYLOAD)
async def complete(call: Call) -> Answer:
    """End the execution well."""
    body: Completion = call.body
    result, encoding = json_or_base64("result", body.result, body.result_base64, None)
    encoding = encoding or body.encoding or ""
    done = await call.apply(
        Complete(**holding(call), result=result, result_encoding="" if result is None else encoding)
    )
    return Answer({"Completed": done})


class Failure(Holding, frozen=True, kw_only=True):
    """What went wrong."""

    reason: str
    category: str = "error"
    detail: str | None = None
    """A traceback, or whatever else helps."""
    retry_after_ms: Integer | None = None


@endpoint("POST", "/v1/executions/{id}/fail", Need.WORK, body=Failure)
async def fail(call: Call) -> Answer:
    """End the attempt with a failure; the policy decides whether another follows."""
    body: Failure = call.body
    outcome = await call.apply(
        Fail(
            **holding(call), reason=body.reason, category=body.category, detail=body.detail or "",
            retry_after_ms=body.retry_after_ms,
        )
    )  # fmt: skip
    return Answer({"RetryScheduled": outcome} if isinstance(outcome, RetryScheduled) else "TerminalFailed")


class LongerHold(Holding, frozen=True):
    """How long the lease is to hold from now."""

    lease_ttl_ms: Integer = DEFAULT_LEASE_TTL_MS
    attempt_index: Integer | None = None
    """When given, it must be the current one."""


@endpoint("POST", "/v1/executions/{id}/renew", Need.WORK, body=LongerHold)
async def renew(call: Call) -> Answer:
    """Hold the lease longer."""
    body: LongerHold = call.body
    renewed = await call.apply(
        Renew(**holding(call), lease_ttl_ms=body.lease_ttl_ms, attempt_index=body.attempt_index)
    )
    return Answer({"Renewed": renewed})


class Progress(Holding, frozen=True):
    """How far the work is; what is not given stays."""

    pct: Integer | None = None
    message: str | None = None


@endpoint("POST", "/v1/executions/{id}/progress", Need.WORK, body=Progress)
async def progress(call: Call) -> Answer:
    """Say how far the work is."""
    await call.apply(UpdateProgress(**holding(call), pct=call.body.pct, message=call.body.message))
    return Answer("Updated")


class Pause(Holding, frozen=True):
    """When to go on: after some time, or at a time."""

    delay_ms: U64 | None = None
    delay_until: Ms | None = None


@endpoint("POST", "/v1/executions/{id}/delay", Need.WORK, body=Pause)
async def delay(call: Call) -> Answer:
    """Give the lease back, and go on later with the same attempt."""
    until = later(call.store.now(), "delay", call.body.delay_ms, call.body.delay_until)
    if until is None:
        raise bad_request("delay_ms: give delay_ms or delay_until", field="delay_ms")
    return Answer({"Delayed": await call.apply(Delay(**holding(call), delay_until=until))})


class GivingBack(Holding, frozen=True):
    """Why, if there is something to say."""

    reason: str | None = None


@endpoint("POST", "/v1/executions/{id}/release", Need.WORK, body=GivingBack)
async def release(call: Call) -> Answer:
    """Give the lease back unfinished; others may claim it at once."""
    await call.apply(Release(**holding(call), reason=call.body.reason or ""))
    return Answer("Released")


@endpoint("POST", "/v1/executions/{id}/wait-children", Need.WORK, body=Holding)
async def wait_children(call: Call) -> Answer:
    """Give the lease back until the children have ended."""
    return Answer({"Moved": await call.apply(WaitChildren(**holding(call)))})
