"""What time does, and what is done to the leases of the dead."""

from __future__ import annotations

from typing import Any

from flowfabric.model.command import Command
from flowfabric.model.operations.lease import AlreadySatisfied
from flowfabric.model.operations.timer import (
    ExpireExecution,
    ExpireSuspension,
    ExpireWaitpoints,
    LoseDeadLease,
    MarkedExpired,
    MarkLeaseExpired,
    PromoteDelayed,
    Purge,
    Swept,
)
from flowfabric.storage.valkey.operations.calls import Reply, operation


@operation(MarkLeaseExpired, "ff_mark_lease_expired")
@operation(LoseDeadLease, "ff_lose_dead_lease")
def _marked(_: Command[Any], reply: Reply) -> MarkedExpired | AlreadySatisfied:
    if reply.text("outcome") == "marked":
        return MarkedExpired()
    return AlreadySatisfied(reply.text("reason"))


@operation(PromoteDelayed, "ff_promote_delayed")
@operation(ExpireExecution, "ff_expire_execution")
@operation(ExpireSuspension, "ff_expire_suspension")
@operation(ExpireWaitpoints, "ff_expire_waitpoints")
@operation(Purge, "ff_purge_execution")
def _swept(_: Command[Any], reply: Reply) -> Swept:
    return Swept(reply.text("outcome"), reply.text("public_state"))
