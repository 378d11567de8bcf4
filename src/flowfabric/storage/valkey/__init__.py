"""The store on Valkey: the same machine, in Lua, inside the server."""

from typing import Any

from flowfabric.storage.valkey.cluster_store import ClusterStore
from flowfabric.storage.valkey.store import ValkeyStore
from flowfabric.storage.valkey.topology import is_cluster

__all__ = ["ClusterStore", "ValkeyStore", "open_valkey"]


async def open_valkey(url: str, **options: Any) -> ValkeyStore:
    """Open a server, or a cluster, as its URL says."""
    return await (ClusterStore if is_cluster(url) else ValkeyStore).open(url, **options)
