"""Taking work."""

from __future__ import annotations

from msgspec.structs import astuple

from flowfabric.model.operations.claim import Claim, Claimed
from flowfabric.storage.valkey.operations.calls import OPERATIONS, Call, Reply, encode, operation, pack_fields
from flowfabric.storage.valkey.operations.tasks import read_task
from flowfabric.storage.valkey.sight import Sight


@operation(Claim, "ff_claim")
def _claimed(_: Claim, reply: Reply) -> Claimed:
    tasks = []
    while reply.rest():
        tasks.append(read_task(reply))
    return Claimed(tuple(tasks))


def claim_call(command: Claim, sight: Sight) -> Call:
    """Say how a claim is sent that sees a part of the work only."""
    return Call(command, OPERATIONS[Claim], (pack_fields(astuple(command)), encode(sight)))
