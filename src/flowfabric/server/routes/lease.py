"""Leases of a worker: renewing many at once, and listing them."""

from __future__ import annotations

from flowfabric.model import checks
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.limits import MAX_LEASE_TTL_MS, MIN_LEASE_TTL_MS
from flowfabric.model.operations.lease import ListLeases, Renew, Renewed
from flowfabric.server.http.call import Response, ServerCall
from flowfabric.server.http.records import inside
from flowfabric.server.http.routing import serves
from flowfabric.wire.errors import bad_request, refusal_of
from flowfabric.wire.lease import (
    LIST_LEASES,
    MAX_RENEWALS,
    RENEW_MANY,
    HeldLease,
    LeasePage,
    RefusedLease,
    RenewalResults,
    RenewedLease,
)


@serves(RENEW_MANY)
async def renew_many(call: ServerCall) -> Response:
    """Renew many leases; each is answered for itself, in order."""
    held: tuple[HeldLease, ...] = call.body.fences
    if len(held) > MAX_RENEWALS:
        raise bad_request(f"fences: send at most {MAX_RENEWALS}", field="fences")
    checks.worker("worker_id", call.path["worker_id"])
    checks.integer("lease_ttl_ms", call.body.lease_ttl_ms, MIN_LEASE_TTL_MS, MAX_LEASE_TTL_MS)
    hidden = [await _hidden(call, lease) for lease in held]
    renewals = [
        Renew(execution_id=lease.execution_id, fence=lease.fence(), lease_ttl_ms=call.body.lease_ttl_ms)
        for lease, refusal in zip(held, hidden, strict=True)
        if refusal is None
    ]
    replies = iter(await call.apply_many(renewals))
    results = tuple(
        _result(lease.execution_id, next(replies) if refusal is None else refusal)
        for lease, refusal in zip(held, hidden, strict=True)
    )
    return Response(RenewalResults(results=results))


async def _hidden(call: ServerCall, lease: HeldLease) -> FlowFabricError | None:
    try:
        await call.visible(lease.execution_id)
    except FlowFabricError as error:
        return error
    return None


def _result(execution_id: str, reply: Renewed | FlowFabricError) -> RenewedLease | RefusedLease:
    if isinstance(reply, Renewed):
        return RenewedLease(execution_id=execution_id, expires_at=reply.expires_at)
    return RefusedLease.of(refusal_of(reply), execution_id=execution_id)


@serves(LIST_LEASES)
async def leases(call: ServerCall) -> Response:
    """List leases; a bound token sees those of its namespace."""
    held = await call.read(ListLeases(worker_instance_id=call.path["worker_id"]))
    if call.principal.namespace:
        held = tuple([each for each in held if await inside(call, each, call.principal.namespace)])
    return Response(LeasePage(executions=held, next_cursor=None))
