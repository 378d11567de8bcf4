"""Claiming one execution: the two-step claim of the classic interface, and grants and claims by name."""

from __future__ import annotations

from typing import Any, Final

from flowfabric.model.errors import FlowFabricError
from flowfabric.model.ids import partition_in, partition_key
from flowfabric.model.operations.claim import FindClaimable, at_reclaim_cap
from flowfabric.model.operations.grant import Granted, IssueClaimGrant, IssueReclaimGrant
from flowfabric.model.operations.read import GetExecution
from flowfabric.model.state import Ownership, Phase
from flowfabric.server.http.call import Response, ServerCall
from flowfabric.server.http.routing import serves
from flowfabric.wire.claim import TaskView
from flowfabric.wire.classic import capabilities, check_asker
from flowfabric.wire.errors import unprocessable
from flowfabric.wire.grant import (
    CLAIM_LANE,
    CLAIM_ONE,
    CLAIMS_BY,
    GRANT,
    RECLAIM,
    ClaimOneBody,
    GrantView,
    LaneClaimBody,
    NotReclaimable,
    ReclaimBody,
    ReclaimCapExceeded,
    ReclaimGranted,
)
from flowfabric.wire.rights import Right

ROUNDS: Final = 4
AT_ONCE: Final = 16
"""How many of the best are tried before looking again: others ask at the same time."""
TAKEN: Final = frozenset({"execution_not_eligible", "grant_already_exists", "execution_not_found"})


@serves(CLAIM_LANE)
async def claim(call: ServerCall) -> Response:
    """Promise the best eligible work of a lane to one worker."""
    body: LaneClaimBody = call.body
    check_asker(call.path["worker_id"], body.worker_instance_id, body.lane_id, body.grant_ttl_ms)
    wanted = capabilities(body.capabilities)
    with call.server.claiming(body.lane_id):
        granted = await _find(call, body, wanted)
    return Response(status=204) if granted is None else Response(GrantView(**_grant(granted)))


async def _find(call: ServerCall, body: LaneClaimBody, wanted: tuple[str, ...]) -> Granted | None:
    """Look for the best work and promise it; what others take first is passed over."""
    question = FindClaimable(
        lane_id=body.lane_id, capabilities=wanted, namespace=call.principal.namespace, limit=AT_ONCE
    )
    for _ in range(ROUNDS):
        found = await call.read(question)
        for execution_id in found:
            try:
                return await call.apply(
                    IssueClaimGrant(
                        execution_id=execution_id,
                        worker_id=call.path["worker_id"],
                        worker_instance_id=body.worker_instance_id,
                        lane_id=body.lane_id,
                        grant_ttl_ms=body.grant_ttl_ms,
                        worker_capabilities=wanted,
                    )
                )
            except FlowFabricError as error:
                if error.code not in TAKEN:
                    raise
        if not found:
            break
    return None


def _grant(granted: Granted) -> dict[str, Any]:
    tag = partition_key("fp", partition_in(granted.execution_id))
    return {
        "execution_id": granted.execution_id,
        "partition_key": tag,
        "grant_key": f"ff:exec:{tag}:{granted.execution_id}:claim_grant",
        "expires_at_ms": granted.expires_at,
    }


@serves(RECLAIM)
async def reclaim(call: ServerCall) -> Response:
    """Promise work whose lease is gone to one worker."""
    body: ReclaimBody = call.body
    execution_id = call.execution_id
    check_asker(body.worker_id, body.worker_instance_id, body.lane_id, body.grant_ttl_ms)
    run = await call.read(GetExecution(execution_id=execution_id))
    lost = run.lifecycle_phase is Phase.ACTIVE and run.ownership_state is not Ownership.LEASED
    if lost and at_reclaim_cap(run):
        return Response(ReclaimCapExceeded(execution_id=execution_id, reclaim_count=run.lease_reclaim_count))
    try:
        granted = await call.apply(RECLAIM.read_command(call, body, IssueReclaimGrant, actor=""))
    except FlowFabricError as error:
        if error.code not in {"execution_not_reclaimable", "capability_mismatch"}:
            raise
        return Response(
            NotReclaimable(execution_id=execution_id, detail=": ".join((error.code, *error.details)))
        )
    return Response(ReclaimGranted(**_grant(granted), lane_id=granted.lane_id))


@serves(GRANT)
async def grant(call: ServerCall) -> Response:
    """Promise one execution to one worker."""
    issue = IssueClaimGrant if call.body.kind == "claim" else IssueReclaimGrant
    return Response(GRANT.answer.write(await call.apply(GRANT.read_command(call, call.body, issue))))


@serves(CLAIM_ONE)
async def claim_one(call: ServerCall) -> Response:
    """Claim one execution, by the right that the body names."""
    body: ClaimOneBody = call.body
    if body.by == "name":
        call.demand(Right.OPERATE)
    execution_id = call.execution_id
    if body.by != "resumed" and body.attempt_id is None:
        raise unprocessable("attempt_id", "is required")
    command = CLAIM_ONE.read_command(call, body, CLAIMS_BY[body.by], execution_id=execution_id, actor="")
    return Response({"Claimed": TaskView.of((await call.apply(command)).task)})
