"""Taking work."""

from __future__ import annotations

from flowfabric.model.contracts.lease import Claim, Claimed
from flowfabric.storage.valkey.operations.calls import Reply, operation
from flowfabric.storage.valkey.operations.tasks import read_task


@operation(Claim, "ff_claim")
def _claimed(_: Claim, reply: Reply) -> Claimed:
    return Claimed(tuple(read_task(reply) for _ in range(reply.rest())))
