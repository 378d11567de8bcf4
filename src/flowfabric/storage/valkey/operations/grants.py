"""Promising work to one worker, and taking one execution by name."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import astuple

from flowfabric.model.checks import worker_capabilities
from flowfabric.model.contracts.lease import (
    ClaimedOne,
    ClaimGranted,
    ClaimResumed,
    GrantAndClaim,
    Granted,
    IssueClaimGrant,
    IssueReclaimGrant,
    Reclaim,
)
from flowfabric.model.errors import FlowFabricError
from flowfabric.storage.valkey.operations.calls import Packed, Reply, operation
from flowfabric.storage.valkey.operations.tasks import read_task

_CAPABILITIES: Final = IssueClaimGrant.__struct_fields__.index("worker_capabilities")


def _pack(command: IssueClaimGrant | IssueReclaimGrant) -> Packed:
    """Check the capabilities here; whether their refusal counts is judged there, with the record."""
    fields: list[Any] = list(astuple(command))
    try:
        fields[_CAPABILITIES] = worker_capabilities(command.worker_capabilities)
    except FlowFabricError as error:
        fields[_CAPABILITIES] = {"refusal": (error.code, error.text, error.field, *error.details)}
    return fields, ()


def _granted(reply: Reply) -> Granted:
    return Granted(reply.text("execution_id"), reply.text("lane_id"), reply.integer("expires_at"))


def _claimed(function: str, reply: Reply) -> ClaimedOne:
    task = read_task(function, reply.list("task"))
    return ClaimedOne(
        task.fence.lease_id, task.fence.lease_epoch, task.lease_expires_at, task.attempt_id, task.attempt_index,
        task.attempt_type, task,
    )  # fmt: skip


@operation(IssueClaimGrant, "ff_issue_claim_grant", pack=_pack)
def _claim_granted(_: IssueClaimGrant, reply: Reply) -> Granted:
    return _granted(reply)


@operation(IssueReclaimGrant, "ff_issue_reclaim_grant", pack=_pack)
def _reclaim_granted(_: IssueReclaimGrant, reply: Reply) -> Granted:
    return _granted(reply)


@operation(ClaimGranted, "ff_claim_execution")
def _claimed_by_grant(_: ClaimGranted, reply: Reply) -> ClaimedOne:
    return _claimed("ff_claim_execution", reply)


@operation(ClaimResumed, "ff_claim_resumed_execution")
def _resumed(_: ClaimResumed, reply: Reply) -> ClaimedOne:
    return _claimed("ff_claim_resumed_execution", reply)


@operation(GrantAndClaim, "ff_issue_grant_and_claim")
def _taken(_: GrantAndClaim, reply: Reply) -> ClaimedOne:
    return _claimed("ff_issue_grant_and_claim", reply)


@operation(Reclaim, "ff_reclaim_execution")
def _reclaimed(_: Reclaim, reply: Reply) -> ClaimedOne:
    return _claimed("ff_reclaim_execution", reply)
