"""Cancelling, which the holder of a lease does otherwise than anybody else."""

from __future__ import annotations

from flowfabric.model.command import OPERATOR_OVERRIDE, Fence
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.operations.finish import Cancel
from flowfabric.server.http.call import Response, ServerCall
from flowfabric.server.http.routing import serves
from flowfabric.wire.errors import from_engine, unprocessable
from flowfabric.wire.fields import HOLDER_SOURCES, fence_of, same_id
from flowfabric.wire.finish import CANCEL, CancelBody
from flowfabric.wire.rights import Right

LEASE_HOLDER = "lease_holder"


@serves(CANCEL)
async def cancel(call: ServerCall) -> Response:
    """Cancel as the holder, whose fence is in `fence`, or as anybody else, in the words of the classic interface."""
    body: CancelBody = call.body
    if body.fence is None:
        for field in ("execution_id", "reason", "now"):
            if getattr(body, field) is None:
                raise unprocessable(field, "is required")
    if body.execution_id is not None:
        same_id("execution_id", call.execution_id, body.execution_id)
    if body.fence is None:
        fence = fence_of(body.lease_id, body.lease_epoch, body.attempt_id)
        reply = await call.apply(_command(call, body, OPERATOR_OVERRIDE, fence))
    else:
        try:
            reply = await call.apply(_command(call, body, LEASE_HOLDER, body.fence.fence()))
        except FlowFabricError as error:  # errors of a holder are not classic ones
            raise from_engine(error, classic=False) from error
    return Response(CANCEL.answer.write(reply))


def _command(call: ServerCall, body: CancelBody, default_source: str, fence: Fence) -> Cancel:
    source = default_source if body.source is None else body.source
    execution_id = call.execution_id
    if source not in HOLDER_SOURCES or not fence.given:
        call.demand(Right.OPERATE)
    return Cancel(
        execution_id=execution_id, fence=fence, source=source, reason=body.reason or "", actor=call.actor
    )
