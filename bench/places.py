"""Fresh stores for a run: a file, a server or a cluster, removed afterwards."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from bench.servers import cluster_url, server_url, valkey_cluster, valkey_server
from bench.settings import Settings
from flowfabric.storage import open_store
from flowfabric.storage.base import Upkeep


class Place(Struct, frozen=True):
    """The address and options with which a process opens the store of a run."""

    url: str
    options: dict[str, Any] = {}

    async def open(self) -> Upkeep:
        """Open another connection to the store."""
        return await open_store(self.url, **self.options)


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Create a temporary folder and remove it afterwards."""
    path = Path(tempfile.mkdtemp(prefix="ff-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


@contextlib.contextmanager
def fresh(settings: Settings) -> Iterator[Place]:
    """Create an empty store of the kind that the settings name."""
    if settings.store == "valkey":
        with valkey_server(settings.aof) as address:
            yield Place(server_url(address))
    elif settings.store == "cluster":
        with valkey_cluster(settings.aof) as addresses:
            yield Place(cluster_url(addresses))
    else:
        with folder() as path:
            yield Place(str(path / "bench.db"), {"synchronous": settings.synchronous})
