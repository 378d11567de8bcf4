"""Where a run keeps its work: a fresh file, server or cluster, which goes away afterwards."""

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
    """What a process needs to open the store of a run."""

    url: str
    options: dict[str, Any] = {}

    async def open(self) -> Upkeep:
        """Open one more connection to it."""
        return await open_store(self.url, **self.options)


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder for a while."""
    path = Path(tempfile.mkdtemp(prefix="ff-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


@contextlib.contextmanager
def fresh(settings: Settings) -> Iterator[Place]:
    """An empty store of the kind that the settings name."""
    if settings.store == "valkey":
        with valkey_server(settings.aof) as address:
            yield Place(server_url(address))
    elif settings.store == "cluster":
        with valkey_cluster(settings.aof) as addresses:
            yield Place(cluster_url(addresses))
    else:
        with folder() as path:
            yield Place(str(path / "bench.db"), {"synchronous": settings.synchronous})
