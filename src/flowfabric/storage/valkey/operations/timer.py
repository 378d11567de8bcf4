"""Deleting what has ended long ago."""

from __future__ import annotations

from flowfabric.model.operations.timer import Purge, Swept
from flowfabric.storage.valkey.operations.calls import Reply, operation


@operation(Purge, "ff_purge_execution")
def _swept(_: Purge, reply: Reply) -> Swept:
    return Swept(reply.text("outcome"), reply.text("public_state"))
