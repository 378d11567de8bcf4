"""What time does."""

from __future__ import annotations

from flowfabric.model.contracts.create import AlreadySatisfied
from flowfabric.model.contracts.upkeep import (
    ExpireExecution,
    MarkedExpired,
    MarkLeaseExpired,
    PromoteDelayed,
    Purge,
    Swept,
)
from flowfabric.storage.valkey.operations.calls import Reply, operation


@operation(MarkLeaseExpired, "ff_mark_lease_expired")
def _marked(_: MarkLeaseExpired, reply: Reply) -> MarkedExpired | AlreadySatisfied:
    if reply.text("outcome") == "marked":
        return MarkedExpired()
    return AlreadySatisfied(reply.text("reason"))


@operation(PromoteDelayed, "ff_promote_delayed")
def _promoted(_: PromoteDelayed, reply: Reply) -> Swept:
    return _swept(reply)


@operation(ExpireExecution, "ff_expire_execution")
def _expired(_: ExpireExecution, reply: Reply) -> Swept:
    return _swept(reply)


@operation(Purge, "ff_purge_execution")
def _purged(_: Purge, reply: Reply) -> Swept:
    return _swept(reply)


def _swept(reply: Reply) -> Swept:
    return Swept(reply.text("outcome"), reply.text("public_state"))
