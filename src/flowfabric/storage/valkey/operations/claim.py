"""Taking work."""

from __future__ import annotations

from flowfabric.model.operations.claim import Claim, Claimed
from flowfabric.storage.valkey.operations.calls import Reply, operation
from flowfabric.storage.valkey.operations.tasks import read_task


@operation(Claim, "ff_claim")
def _claimed(_: Claim, reply: Reply) -> Claimed:
    tasks = []
    while reply.rest():
        tasks.append(read_task(reply))
    return Claimed(tuple(tasks))
