"""The classic two-step claim: a grant for one worker."""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import Struct

from flowfabric.model import checks
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.ids import partition_in, partition_key
from flowfabric.model.limits import MAX_CAPABILITIES, MAX_CAPABILITY_BYTES, MAX_GRANT_TTL_MS, MAX_NAME_BYTES
from flowfabric.model.operations.claim import FindClaimable, at_reclaim_cap
from flowfabric.model.operations.grant import Granted, IssueClaimGrant, IssueReclaimGrant
from flowfabric.model.operations.read import GetExecution
from flowfabric.model.state import Ownership, Phase
from flowfabric.server.call import Answer, Call
from flowfabric.server.errors import HttpError, bad_request
from flowfabric.server.forms import U64
from flowfabric.server.roles import Need
from flowfabric.server.routing import endpoint

ROUNDS: Final = 4
AT_ONCE: Final = 16
"""How many of the best are tried before looking again: others ask at the same time."""
TAKEN: Final = frozenset({"execution_not_eligible", "grant_already_exists", "execution_not_found"})
_BLANK_OR_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]|\s")


class ClaimForm(Struct, frozen=True):
    """A worker that looks for work on one lane."""

    lane_id: str
    worker_instance_id: str
    grant_ttl_ms: U64
    capabilities: tuple[str, ...] = ()


@endpoint(
    "POST", "/v1/workers/{worker_id}/claim", Need.WORK, body=ClaimForm, classic=True, bound=True,
    answers=((200, "A grant."), (204, "There is nothing to do.")),
)  # fmt: skip
async def claim(call: Call) -> Answer:
    """Promise the best eligible work of a lane to one worker."""
    body: ClaimForm = call.body
    _check_asker(call.path["worker_id"], body.worker_instance_id, body.lane_id, body.grant_ttl_ms)
    capabilities = _capabilities(body.capabilities)
    with call.server.claiming(body.lane_id):
        granted = await _find(call, body, capabilities)
    return Answer(status=204) if granted is None else Answer(_grant(granted))


async def _find(call: Call, body: ClaimForm, capabilities: tuple[str, ...]) -> Granted | None:
    """Look for the best work and promise it; what others take first is passed over."""
    question = FindClaimable(
        lane_id=body.lane_id, capabilities=capabilities, namespace=call.principal.namespace, limit=AT_ONCE
    )
    for _ in range(ROUNDS):
        found = await call.read(question)
        for execution_id in found:
            try:
                return await call.apply(
                    IssueClaimGrant(
                        execution_id=execution_id, worker_id=call.path["worker_id"],
                        worker_instance_id=body.worker_instance_id, lane_id=body.lane_id,
                        grant_ttl_ms=body.grant_ttl_ms, worker_capabilities=capabilities,
                    )
                )  # fmt: skip
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


class ReclaimForm(Struct, frozen=True):
    """A worker that wants to take over work whose lease is gone."""

    worker_id: str
    worker_instance_id: str
    lane_id: str
    grant_ttl_ms: U64
    capability_hash: str | None = None
    route_snapshot_json: str | None = None
    admission_summary: str | None = None
    worker_capabilities: tuple[str, ...] = ()


@endpoint("POST", "/v1/executions/{id}/reclaim", Need.WORK, body=ReclaimForm, classic=True)
async def reclaim(call: Call) -> Answer:
    """Promise work whose lease is gone to one worker."""
    body: ReclaimForm = call.body
    execution_id = call.execution_id
    _check_asker(body.worker_id, body.worker_instance_id, body.lane_id, body.grant_ttl_ms)
    run = await call.read(GetExecution(execution_id=execution_id))
    lost = run.lifecycle_phase is Phase.ACTIVE and run.ownership_state is not Ownership.LEASED
    if lost and at_reclaim_cap(run):
        return Answer(
            {
                "status": "reclaim_cap_exceeded",
                "execution_id": execution_id,
                "reclaim_count": run.lease_reclaim_count,
            }
        )
    try:
        granted = await call.apply(
            IssueReclaimGrant(
                execution_id=execution_id, worker_id=body.worker_id, worker_instance_id=body.worker_instance_id,
                lane_id=body.lane_id, grant_ttl_ms=body.grant_ttl_ms, capability_hash=body.capability_hash or "",
                route_snapshot_json=body.route_snapshot_json or "", admission_summary=body.admission_summary or "",
                worker_capabilities=body.worker_capabilities,
            )
        )  # fmt: skip
    except FlowFabricError as error:
        if error.code not in {"execution_not_reclaimable", "capability_mismatch"}:
            raise
        detail = ": ".join((error.code, *error.details))
        return Answer({"status": "not_reclaimable", "execution_id": execution_id, "detail": detail})
    return Answer({"status": "granted", **_grant(granted), "lane_id": granted.lane_id})


# The older routes have words of their own for what is wrong.


def _check_asker(worker_id: str, worker_instance_id: str, lane_id: str, grant_ttl_ms: int) -> None:
    _check_worker("worker_id", worker_id)
    _check_worker("worker_instance_id", worker_instance_id)
    try:
        checks.lane(lane_id)
    except FlowFabricError as error:
        raise bad_request(f"lane_id: {error.text}", field="lane_id") from error
    if not 1 <= grant_ttl_ms <= MAX_GRANT_TTL_MS:
        raise bad_request(f"grant_ttl_ms must be in 1..={MAX_GRANT_TTL_MS}", field="grant_ttl_ms")


def _check_worker(field: str, value: str) -> None:
    size = len(value.encode("utf-8", "surrogatepass"))
    if not value:
        raise bad_request(f"{field}: must not be empty", field=field)
    if size > MAX_NAME_BYTES:
        raise bad_request(f"{field}: exceeds {MAX_NAME_BYTES} bytes (got {size})", field=field)
    if _BLANK_OR_CONTROL.search(value):
        raise bad_request(f"{field}: must not contain whitespace or control characters", field=field)


def _capabilities(tokens: tuple[str, ...]) -> tuple[str, ...]:
    for token in tokens:
        if not token:
            raise _bad_capability("capability token must not be empty")
        if "," in token:
            raise _bad_capability(f"capability token may not contain ',' (the delimiter): {token}")
        if _BLANK_OR_CONTROL.search(token):
            raise _bad_capability(
                f"capability token must not contain whitespace or control characters: {token!r}"
            )
    distinct = tuple(sorted(set(tokens)))
    if len(distinct) > MAX_CAPABILITIES:
        raise _bad_capability(f"capability set exceeds CAPS_MAX_TOKENS ({MAX_CAPABILITIES}): {len(distinct)}")
    size = len(",".join(distinct).encode())
    if size > MAX_CAPABILITY_BYTES:
        raise _bad_capability(f"capability CSV exceeds CAPS_MAX_BYTES ({MAX_CAPABILITY_BYTES}): {size}")
    return distinct


def _bad_capability(text: str) -> HttpError:
    return bad_request(f"invalid_input: {text}", field="capabilities")
