"""What the holder of a lease does with it."""

from __future__ import annotations

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
from flowfabric.model.operations.lease import Release, Released, Renew, Renewed, Updated, UpdateProgress
from flowfabric.model.operations.step import PutStep, StepExisting, StepStored
from flowfabric.model.records import Step
from flowfabric.model.state import Public
from flowfabric.storage.valkey.codec import decode
from flowfabric.storage.valkey.operations.calls import Reply, operation


@operation(Renew, "ff_renew_lease")
def _renewed(_: Renew, reply: Reply) -> Renewed:
    return Renewed(reply.integer("expires_at"))


@operation(Release, "ff_release_lease")
def _released(_: Release, __: Reply) -> Released:
    return Released()


@operation(Complete, "ff_complete_execution", blobs=("result",))
def _completed(_: Complete, reply: Reply) -> Completed:
    return Completed(reply.text("execution_id"), Public(reply.text("public_state")))


@operation(Fail, "ff_fail_execution")
def _failed(_: Fail, reply: Reply) -> RetryScheduled | TerminalFailed:
    if reply.text("outcome") == "failed":
        return TerminalFailed()
    return RetryScheduled(reply.integer("delay_until"), reply.integer("next_attempt_index"))


@operation(Cancel, "ff_cancel_execution")
def _cancelled(command: Cancel, _: Reply) -> Cancelled:
    return Cancelled(command.execution_id)


@operation(Delay, "ff_delay_execution")
def _delayed(_: Delay, reply: Reply) -> Delayed:
    return Delayed(reply.text("execution_id"), Public(reply.text("public_state")))


@operation(WaitChildren, "ff_wait_children")
def _moved(_: WaitChildren, reply: Reply) -> Moved:
    return Moved(reply.text("execution_id"), Public(reply.text("public_state")))


@operation(UpdateProgress, "ff_update_progress")
def _updated(_: UpdateProgress, __: Reply) -> Updated:
    return Updated()


@operation(PutStep, "ff_put_step", blobs=("result",))
def _stored(_: PutStep, reply: Reply) -> StepStored | StepExisting:
    if reply.text("outcome") == "stored":
        return StepStored()
    step: Step = decode("step", reply.bytes("step"))
    return StepExisting(step.result, step.encoding)
