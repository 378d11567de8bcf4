"""The store on Valkey, alone or a cluster: the machine decides here, and inside the server where speed matters."""

from typing import Any

from flowfabric.storage.valkey.cluster.store import ClusterStore
from flowfabric.storage.valkey.cluster.topology import is_cluster
from flowfabric.storage.valkey.store import ValkeyStore

__all__ = ["ClusterStore", "ValkeyStore", "open_valkey"]


async def open_valkey(url: str, **options: Any) -> ValkeyStore:
    """Open a server, or a cluster, as its URL says."""
    return await (ClusterStore if is_cluster(url) else ValkeyStore).open(url, **options)
