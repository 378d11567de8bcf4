"""Taking one execution by its name: grants, and claims by grant; and the smaller things that a worker asks for."""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Struct

from flowfabric.model.limits import DEFAULT_LEASE_TTL_MS
from flowfabric.model.operations.grant import (
    ClaimGranted,
    ClaimResumed,
    GrantAndClaim,
    IssueClaimGrant,
    IssueReclaimGrant,
    Reclaim,
)
from flowfabric.model.operations.lease import ListLeases
from flowfabric.model.operations.signal import ObserveSignals
from flowfabric.model.operations.suspend_waitpoint import CloseWaitpoint
from flowfabric.server import render
from flowfabric.server.call import Answer, Call
from flowfabric.server.errors import unprocessable
from flowfabric.server.forms import U64, Integer, Uuid, path_uuid
from flowfabric.server.records import inside
from flowfabric.server.roles import Need
from flowfabric.server.routes.tasks import task_shape
from flowfabric.server.routing import endpoint


class GrantForm(Struct, frozen=True):
    """A promise to one worker: of eligible work, or of work whose lease is gone (`reclaim`)."""

    worker_id: str
    worker_instance_id: str
    grant_ttl_ms: Integer
    kind: Literal["claim", "reclaim"] = "claim"
    lane_id: str = ""
    capability_hash: str = ""
    route_snapshot_json: str = ""
    admission_summary: str = ""
    worker_capabilities: tuple[str, ...] = ()


@endpoint("POST", "/v1/executions/{id}/grant", Need.WORK, body=GrantForm)
async def grant(call: Call) -> Answer:
    """Promise one execution to one worker."""
    body: GrantForm = call.body
    issue = IssueClaimGrant if body.kind == "claim" else IssueReclaimGrant
    granted = await call.apply(
        issue(
            execution_id=call.execution_id, worker_id=body.worker_id,
            worker_instance_id=body.worker_instance_id, lane_id=body.lane_id,
            capability_hash=body.capability_hash, grant_ttl_ms=body.grant_ttl_ms,
            route_snapshot_json=body.route_snapshot_json, admission_summary=body.admission_summary,
            worker_capabilities=body.worker_capabilities, actor=call.actor,
        )
    )  # fmt: skip
    return Answer({"Granted": granted})


class NamedClaim(Struct, frozen=True):
    """A claim of one execution, and by what right.

    By a grant as new (`grant`) or as interrupted (`resumed`), by a reclaim grant (`reclaim`), or without any, which is
    for operators (`name`).
    """

    by: Literal["grant", "resumed", "reclaim", "name"]
    worker_id: str
    worker_instance_id: str
    lease_id: Uuid
    attempt_id: Uuid | None = None
    """Of the new attempt; a resumed one keeps its own."""
    lease_ttl_ms: Integer = DEFAULT_LEASE_TTL_MS
    max_reclaim_count: U64 | None = None


_BY: Final[dict[str, Any]] = {"grant": ClaimGranted, "reclaim": Reclaim, "name": GrantAndClaim}


@endpoint("POST", "/v1/executions/{id}/claim", Need.WORK, body=NamedClaim)
async def claim_named(call: Call) -> Answer:
    """Claim one execution."""
    body: NamedClaim = call.body
    if body.by == "name":
        call.demand(Need.OPERATE)
    given: dict[str, Any] = {
        "execution_id": call.execution_id, "worker_id": body.worker_id,
        "worker_instance_id": body.worker_instance_id, "lease_id": body.lease_id,
        "lease_ttl_ms": body.lease_ttl_ms,
    }  # fmt: skip
    if body.by == "resumed":
        claimed = await call.apply(ClaimResumed(**given))
    else:
        if body.attempt_id is None:
            raise unprocessable("attempt_id", "is required")
        cap = {"max_reclaim_count": body.max_reclaim_count} if body.by == "reclaim" else {}
        claimed = await call.apply(_BY[body.by](**given, **cap, attempt_id=body.attempt_id))
    return Answer({"Claimed": task_shape(claimed.task)})


class ClosingQuery(Struct, frozen=True):
    """Why."""

    reason: str = "proactive_close"


@endpoint("DELETE", "/v1/executions/{id}/waitpoints/{waitpoint_id}", Need.WORK, query=ClosingQuery)
async def close_waitpoint(call: Call) -> Answer:
    """Close a pending waitpoint that will not be used."""
    closed = await call.apply(
        CloseWaitpoint(
            execution_id=call.execution_id,
            waitpoint_id=path_uuid("waitpoint_id", call.path["waitpoint_id"]),
            reason=call.query.reason,
            actor=call.actor,
        )
    )
    return Answer({"Closed": closed})


@endpoint("GET", "/v1/executions/{id}/signals", Need.READ)
async def signals(call: Call) -> Answer:
    """List the signals that ended the last suspension of the current attempt."""
    found = await call.server.live.read_large(call.read(ObserveSignals(execution_id=call.execution_id)))
    return Answer({"signals": render.signals(found)})


@endpoint("GET", "/v1/workers/{worker_id}/leases", Need.READ, bound=True)
async def leases(call: Call) -> Answer:
    """List the executions that one instance of a worker holds."""
    held = await call.read(ListLeases(worker_instance_id=call.path["worker_id"]))
    if call.principal.namespace:
        held = tuple([each for each in held if await inside(call, each, call.principal.namespace)])
    return Answer({"executions": held, "next_cursor": None})
