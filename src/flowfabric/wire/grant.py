"""Claiming one execution by name: grants, and claims by grant."""

from __future__ import annotations

from typing import Any, Literal

from flowfabric.model.limits import DEFAULT_LEASE_TTL_MS
from flowfabric.model.operations.grant import (
    ClaimedOne,
    ClaimGranted,
    ClaimResumed,
    GrantAndClaim,
    Granted,
    IssueClaimGrant,
    IssueReclaimGrant,
    Reclaim,
    claimed_one,
)
from flowfabric.wire.answers import OneOf, View, decoded, one_of
from flowfabric.wire.claim import TaskView
from flowfabric.wire.examples import ATTEMPT, LEASE, WORKER
from flowfabric.wire.fields import U64, Body, Integer, Uuid
from flowfabric.wire.rights import Right
from flowfabric.wire.route import RUN, route


class GrantBody(Body, frozen=True):
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


def _kind(command: Any) -> dict[str, Any]:
    return {"kind": "claim" if isinstance(command, IssueClaimGrant) else "reclaim"}


GRANT = route(
    "grant", "POST", f"{RUN}/grant", Right.WORK, "Promise one execution to one worker.",
    also=(IssueClaimGrant, IssueReclaimGrant), body=GrantBody, answer=one_of(Granted), sends=_kind,
    example={**WORKER, "grant_ttl_ms": 5000},
)  # fmt: skip


class ClaimOneBody(Body, frozen=True):
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


CLAIMS_BY: dict[str, Any] = {
    "grant": ClaimGranted,
    "resumed": ClaimResumed,
    "reclaim": Reclaim,
    "name": GrantAndClaim,
}
"""The command of each right to claim."""
_BY = {command: by for by, command in CLAIMS_BY.items()}


class ClaimedView(View, frozen=True, kw_only=True, rename={"claimed": "Claimed"}):
    """The task that a claim by name brought."""

    claimed: TaskView


def _claimed(command: Any, reply: Any) -> ClaimedOne:
    found: ClaimedView = decoded(reply.body, ClaimedView)
    return claimed_one(found.claimed.model(command.worker_id, command.worker_instance_id))


CLAIM_ONE = route(
    "claim_named", "POST", f"{RUN}/claim", Right.WORK, "Claim one execution.",
    also=tuple(CLAIMS_BY.values()), body=ClaimOneBody, answer=OneOf({"Claimed": TaskView}), reads=_claimed,
    sends=lambda command: {"by": _BY[type(command)]},
    example={"by": "grant", **WORKER, "lease_id": LEASE, "attempt_id": ATTEMPT, "lease_ttl_ms": 30000},
)  # fmt: skip


# The two-step claim of the older interface.


class GrantView(View, frozen=True, kw_only=True):
    """A grant, and where it is stored."""

    execution_id: str
    partition_key: str
    grant_key: str
    expires_at_ms: int


class LaneClaimBody(Body, frozen=True):
    """A worker that looks for work on one lane."""

    lane_id: str
    worker_instance_id: str
    grant_ttl_ms: U64
    capabilities: tuple[str, ...] = ()


CLAIM_LANE = route(
    "claim", "POST", "/v1/workers/{worker_id}/claim", Right.WORK,
    "Promise the best eligible work of a lane to one worker.",
    body=LaneClaimBody, answer=GrantView, classic=True, bound=True,
    statuses=((200, "A grant."), (204, "There is nothing to do.")),
    example={"lane_id": "default", "worker_instance_id": "worker-1-a", "grant_ttl_ms": 5000},
)  # fmt: skip


class ReclaimBody(Body, frozen=True):
    """A worker that wants to take over work whose lease is gone."""

    worker_id: str
    worker_instance_id: str
    lane_id: str
    grant_ttl_ms: U64
    capability_hash: str | None = None
    route_snapshot_json: str | None = None
    admission_summary: str | None = None
    worker_capabilities: tuple[str, ...] = ()


class ReclaimGranted(GrantView, frozen=True, kw_only=True, tag_field="status", tag="granted"):
    """A grant to take over work."""

    lane_id: str


class NotReclaimable(View, frozen=True, kw_only=True, tag_field="status", tag="not_reclaimable"):
    """The work cannot be taken over, and why."""

    execution_id: str
    detail: str


class ReclaimCapExceeded(View, frozen=True, kw_only=True, tag_field="status", tag="reclaim_cap_exceeded"):
    """The work was taken over too often."""

    execution_id: str
    reclaim_count: int


RECLAIM = route(
    "reclaim", "POST", f"{RUN}/reclaim", Right.WORK, "Promise work whose lease is gone to one worker.",
    body=ReclaimBody, answer=ReclaimGranted | NotReclaimable | ReclaimCapExceeded, classic=True,
    example={**WORKER, "lane_id": "default", "grant_ttl_ms": 5000},
)  # fmt: skip
