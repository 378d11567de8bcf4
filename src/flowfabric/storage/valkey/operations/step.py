"""Storing the result of a step."""

from __future__ import annotations

from flowfabric.model.operations.step import PutStep, StepExisting, StepStored
from flowfabric.model.records import Step
from flowfabric.storage.valkey.codec import decode
from flowfabric.storage.valkey.operations.calls import Reply, operation


@operation(PutStep, "ff_put_step", blobs=("result",))
def _stored(_: PutStep, reply: Reply) -> StepStored | StepExisting:
    if reply.text("outcome") == "stored":
        return StepStored()
    step: Step = decode("step", reply.bytes("step"))
    return StepExisting(step.result, step.encoding)
