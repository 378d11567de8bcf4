"""Promising work to one worker, and taking one execution by name."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import astuple

from flowfabric.model.checks import worker_capabilities
from flowfabric.model.command import Command
from flowfabric.model.errors import FlowFabricError
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


@operation(IssueClaimGrant, "ff_issue_claim_grant", pack=_pack)
@operation(IssueReclaimGrant, "ff_issue_reclaim_grant", pack=_pack)
def _granted(_: Command[Any], reply: Reply) -> Granted:
    return Granted(reply.text("execution_id"), reply.text("lane_id"), reply.integer("expires_at"))


@operation(ClaimGranted, "ff_claim_execution")
@operation(ClaimResumed, "ff_claim_resumed_execution")
@operation(GrantAndClaim, "ff_issue_grant_and_claim")
@operation(Reclaim, "ff_reclaim_execution")
def _claimed(_: Command[Any], reply: Reply) -> ClaimedOne:
    return claimed_one(read_task(reply))
