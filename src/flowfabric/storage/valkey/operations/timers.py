"""What time does."""

from __future__ import annotations

from flowfabric.model.contracts.create import AlreadySatisfied
from flowfabric.model.contracts.upkeep import MarkedExpired, MarkLeaseExpired
from flowfabric.storage.valkey.operations.calls import Reply, operation


@operation(MarkLeaseExpired, "ff_mark_lease_expired")
def _marked(_: MarkLeaseExpired, reply: Reply) -> MarkedExpired | AlreadySatisfied:
    if reply.text("outcome") == "marked":
        return MarkedExpired()
    return AlreadySatisfied(reply.text("reason"))
