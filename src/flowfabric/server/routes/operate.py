"""What operators do to an execution: cancel, hold back, let go, run again."""

from __future__ import annotations

from msgspec import Struct

from flowfabric.model import checks
from flowfabric.model.command import OPERATOR_OVERRIDE, Fence
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.operations.finish import Cancel
from flowfabric.model.operations.lane import PauseLane, UnpauseLane
from flowfabric.model.operations.lease import Revoked as LeaseRevoked
from flowfabric.model.operations.lease import RevokeLease
from flowfabric.model.operations.operate import ChangePriority, Pause, Replay, SetTags, Unpause
from flowfabric.model.operations.suspend_resume import ResumeExecution
from flowfabric.server.call import Answer, Call
from flowfabric.server.errors import from_engine, unprocessable
from flowfabric.server.forms import U64, Clock, ExecutionIdText, FenceForm, Priority, Uuid, same_id
from flowfabric.server.roles import Need
from flowfabric.server.routing import endpoint

LEASE_HOLDER = "lease_holder"
HOLDER_SOURCES = (LEASE_HOLDER, "worker")


class Cancellation(Struct, frozen=True):
    """Ends an execution. The holder sends its fence; anybody else names the execution again, a reason and the time."""

    execution_id: ExecutionIdText | None = None
    reason: str | None = None
    source: str | None = None
    lease_id: Uuid | None = None
    lease_epoch: U64 | None = None
    attempt_id: Uuid | None = None
    now: Clock | None = None
    fence: FenceForm | None = None

    def check(self) -> None:
        """Refuse what an operator's cancel must say and does not."""
        for field in ("execution_id", "reason", "now"):
            if getattr(self, field) is None:
                raise unprocessable(field, "is required")


@endpoint("POST", "/v1/executions/{id}/cancel", Need.WORK, body=Cancellation, classic=True)
async def cancel(call: Call) -> Answer:
    """Cancel an execution."""
    body: Cancellation = call.body
    if body.fence is None:
        body.check()
    if body.execution_id is not None:
        same_id("execution_id", call.execution_id, body.execution_id)
    execution_id = call.execution_id
    if body.fence is not None:
        return await _cancel_as_holder(call, execution_id, body, body.fence)
    fence = FenceForm(body.lease_id, body.lease_epoch, body.attempt_id).fence()
    await call.apply(
        _cancellation(
            call, execution_id, body, OPERATOR_OVERRIDE if body.source is None else body.source, fence
        )
    )
    return _cancelled(execution_id)


async def _cancel_as_holder(call: Call, execution_id: str, body: Cancellation, form: FenceForm) -> Answer:
    try:
        await call.apply(
            _cancellation(
                call, execution_id, body, LEASE_HOLDER if body.source is None else body.source, form.fence()
            )
        )
    except FlowFabricError as error:  # a verb of the holder speaks as the other ones do
        raise from_engine(error, classic=False) from error
    return _cancelled(execution_id)


def _cancellation(call: Call, execution_id: str, body: Cancellation, source: str, fence: Fence) -> Cancel:
    if source not in HOLDER_SOURCES or not fence.given:
        call.demand(Need.OPERATE)
    return Cancel(
        execution_id=execution_id, fence=fence, source=source, reason=body.reason or "", actor=call.actor
    )


def _cancelled(execution_id: str) -> Answer:
    return Answer({"Cancelled": {"execution_id": execution_id, "public_state": "cancelled"}})


class PriorityForm(Struct, frozen=True):
    """A priority; it is kept between 0 and 9000."""

    new_priority: Priority


@endpoint("PUT", "/v1/executions/{id}/priority", Need.OPERATE, body=PriorityForm, classic=True)
async def change_priority(call: Call) -> Answer:
    """Change the priority of an execution that has not ended."""
    execution_id = call.execution_id
    changed = await call.apply(
        ChangePriority(execution_id=execution_id, priority=call.body.new_priority, actor=call.actor)
    )
    headers = (("x-old-priority", str(changed.old)), ("x-new-priority", str(changed.new)))
    return Answer({"Changed": {"execution_id": execution_id}}, headers=headers)


class ReplayQuery(Struct, frozen=True):
    """Which durable steps the new run finds; none unless asked for."""

    keep_steps: bool = False
    from_step: str = ""
    reason: str = ""
    requested_by: str = ""
    """Who wants it, where it is somebody else than the one who asks."""


@endpoint("POST", "/v1/executions/{id}/replay", Need.OPERATE, query=ReplayQuery, classic=True)
async def replay(call: Call) -> Answer:
    """Run an ended execution again."""
    execution_id = call.execution_id
    command = Replay(
        execution_id=execution_id, requested_by=call.query.requested_by or call.actor, reason=call.query.reason,
        keep_steps=call.query.keep_steps,
        from_step=call.query.from_step, actor=call.actor,
    )  # fmt: skip
    return Answer({"Replayed": {"public_state": (await call.apply(command)).public_state}})


class RevocationQuery(Struct, frozen=True):
    """Which lease, if only that one is meant, and why."""

    expected_lease_id: str = ""
    reason: str = "operator_revoke"


@endpoint("POST", "/v1/executions/{id}/revoke-lease", Need.OPERATE, query=RevocationQuery, classic=True)
async def revoke_lease(call: Call) -> Answer:
    """Take the lease away from its holder."""
    execution_id = call.execution_id
    reply = await call.apply(
        RevokeLease(
            execution_id=execution_id,
            expected_lease_id=call.query.expected_lease_id,
            reason=call.query.reason,
            actor=call.actor,
        )
    )
    if isinstance(reply, LeaseRevoked):
        return Answer({"Revoked": {"lease_id": reply.lease_id, "lease_epoch": str(reply.lease_epoch)}})
    return Answer({"AlreadySatisfied": {"reason": reply.reason}})


class ResumeForm(Struct, frozen=True):
    """When a resumed execution may go on."""

    resume_delay_ms: U64 | None = None


@endpoint("POST", "/v1/executions/{id}/resume", Need.OPERATE, body=ResumeForm, body_optional=True)
async def resume(call: Call) -> Answer:
    """Resume a suspended execution."""
    delay = (call.body.resume_delay_ms or 0) if call.body else 0
    execution_id = call.execution_id
    reply = await call.apply(
        ResumeExecution(execution_id=execution_id, resume_delay_ms=delay, actor=call.actor)
    )
    return Answer({"Resumed": {"public_state": reply.public_state}})


class TagsForm(Struct, frozen=True):
    """Tags to set; others stay."""

    tags: dict[str, str]


@endpoint("PUT", "/v1/executions/{id}/tags", Need.OPERATE, body=TagsForm)
async def set_tags(call: Call) -> Answer:
    """Set tags of an execution."""
    execution_id = call.execution_id
    command = SetTags(execution_id=execution_id, tags=checks.tags(call.body.tags), actor=call.actor)
    return Answer({"Updated": {"count": (await call.apply(command)).count}})


class ReasonForm(Struct, frozen=True):
    """Why."""

    reason: str | None = None


def _reason(call: Call) -> str:
    return (call.body.reason or "") if call.body else ""


@endpoint("POST", "/v1/executions/{id}/pause", Need.OPERATE, body=ReasonForm, body_optional=True)
async def pause(call: Call) -> Answer:
    """Hold a runnable execution back."""
    execution_id = call.execution_id
    await call.apply(Pause(execution_id=execution_id, reason=_reason(call), actor=call.actor))
    return Answer("Paused")


@endpoint("POST", "/v1/executions/{id}/unpause", Need.OPERATE, body=ReasonForm, body_optional=True)
async def unpause(call: Call) -> Answer:
    """Let a paused execution go on."""
    await call.apply(Unpause(execution_id=call.execution_id, actor=call.actor))
    return Answer("Unpaused")


@endpoint("POST", "/v1/lanes/{lane}/pause", Need.OPERATE, body=ReasonForm, body_optional=True)
async def pause_lane(call: Call) -> Answer:
    """Stop claims on a lane."""
    await call.apply(PauseLane(lane_id=call.path["lane"], reason=_reason(call), actor=call.actor))
    return Answer("Paused")


@endpoint("POST", "/v1/lanes/{lane}/unpause", Need.OPERATE, body=ReasonForm, body_optional=True)
async def unpause_lane(call: Call) -> Answer:
    """Allow claims on a lane again."""
    await call.apply(UnpauseLane(lane_id=call.path["lane"], actor=call.actor))
    return Answer("Unpaused")
