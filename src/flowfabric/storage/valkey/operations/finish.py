"""Ending the attempt of a holder."""

from __future__ import annotations

from flowfabric.model.operations.finish import Complete, Completed, Fail, RetryScheduled, TerminalFailed
from flowfabric.model.state import Public
from flowfabric.storage.valkey.operations.calls import Reply, operation


@operation(Complete, "ff_complete_execution", blobs=("result",))
def _completed(_: Complete, reply: Reply) -> Completed:
    return Completed(reply.text("execution_id"), Public(reply.text("public_state")))


@operation(Fail, "ff_fail_execution")
def _failed(_: Fail, reply: Reply) -> RetryScheduled | TerminalFailed:
    if reply.text("outcome") == "failed":
        return TerminalFailed()
    return RetryScheduled(reply.integer("delay_until"), reply.integer("next_attempt_index"))
