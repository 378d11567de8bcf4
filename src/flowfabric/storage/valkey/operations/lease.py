"""Keeping a lease."""

from __future__ import annotations

from flowfabric.model.operations.lease import Renew, Renewed
from flowfabric.storage.valkey.operations.calls import Reply, operation


@operation(Renew, "ff_renew_lease")
def _renewed(_: Renew, reply: Reply) -> Renewed:
    return Renewed(reply.integer("expires_at"))
