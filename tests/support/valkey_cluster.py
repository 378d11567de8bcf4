"""A real cluster of three for tests: one for each test process, on loopback, without files; emptied before each use.

Tests that break a cluster form one of their own, with replicas if they want, and move slots about in it.
"""

from __future__ import annotations

import asyncio
import atexit
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import valkey as driver
from flowfabric.storage.base import Upkeep
from flowfabric.storage.valkey import ClusterStore
from flowfabric.testing.servers import free_port
from support.clock import ManualClock
from support.valkey import ValkeyServer

PRIMARIES: Final = 3
SLOTS: Final = 16_384
FORM_SECONDS: Final = 30.0
NODE_TIMEOUT_MS: Final = 2_000


def cluster_node(*options: str) -> ValkeyServer:
    """Start a server that can be part of a cluster."""
    return ValkeyServer(
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        str(free_port()),
        "--cluster-node-timeout",
        str(NODE_TIMEOUT_MS),
        "--cluster-replica-validity-factor",
        "0",
        "--repl-diskless-sync-delay",
        "0",
        *options,
    )


def ask(server: ValkeyServer, *arguments: Any) -> Any:
    """Send one command to one server."""
    connection: Any = driver.connection.Connection(port=server.port, socket_timeout=10)  # type: ignore[no-untyped-call]
    try:
        connection.send_command(*arguments)
        return connection.read_response()
    finally:
        connection.disconnect()


class ValkeyCluster:
    """Servers that share the slots, and replicas of theirs."""

    def __init__(self, *options: str, primaries: int = PRIMARIES, replicas: int = 0) -> None:
        self.servers = [cluster_node(*options) for _ in range(primaries)]
        self.replicas = [cluster_node(*options) for _ in range(primaries * replicas)]
        share = SLOTS // primaries
        for place, server in enumerate(self.servers):
            last = SLOTS - 1 if place == primaries - 1 else (place + 1) * share - 1
            ask(server, "CLUSTER", "ADDSLOTSRANGE", place * share, last)
            ask(server, "CLUSTER", "SET-CONFIG-EPOCH", place + 1)
        for server in self.all[1:]:
            self.meet(server)
        self.await_all(
            lambda server: _raw(ask(server, "CLUSTER", "NODES")).count(b"connected") == len(self.all)
        )
        for place, server in enumerate(self.replicas):
            ask(server, "CLUSTER", "REPLICATE", name_of(self.servers[place % primaries]))
        self.await_all(lambda server: b"cluster_state:ok" in _raw(ask(server, "CLUSTER", "INFO")))
        if replicas:
            await_true(lambda: all(map(_is_followed, self.servers)))
        self.url = "valkey+cluster://" + ",".join(f"127.0.0.1:{server.port}" for server in self.servers)

    @property
    def all(self) -> list[ValkeyServer]:
        """Primaries, then replicas, as they were at first."""
        return [*self.servers, *self.replicas]

    def meet(self, server: ValkeyServer) -> None:
        """Bring a server into the cluster."""
        first = self.servers[0]
        bus = server.options[server.options.index("--cluster-port") + 1]
        ask(first, "CLUSTER", "MEET", "127.0.0.1", server.port, bus)

    def await_all(self, holds: Callable[[ValkeyServer], bool]) -> None:
        """Wait until something holds on every server."""
        await_true(lambda: all(holds(server) for server in self.all))

    def holder(self, slot: int) -> ValkeyServer:
        """Return the server that holds a slot, as the first that runs knows it."""
        (running, *_) = [server for server in self.all if server.process.poll() is None]
        for first, last, primary, *_ in ask(running, "CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next(server for server in self.all if server.port == primary[1])
        raise LookupError(f"nobody holds {slot}")

    def empty(self) -> None:
        """Delete everything but functions."""
        for server in self.servers:
            ask(server, "FLUSHALL")

    def stop(self) -> None:
        for server in self.all:
            server.stop()


def name_of(server: ValkeyServer) -> str:
    """Return what the cluster calls a server."""
    return _raw(ask(server, "CLUSTER", "MYID")).decode()


def _is_followed(server: ValkeyServer) -> bool:
    return b"state=online" in _raw(ask(server, "INFO", "replication"))


def await_true(holds: Callable[[], bool]) -> None:
    """Wait until something holds; for what happens in other processes."""
    end = time.monotonic() + FORM_SECONDS
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError("the cluster does not come to it")
        time.sleep(0.02)


def _raw(reply: Any) -> bytes:
    """Read a reply that the driver may have taken apart already."""
    return reply if isinstance(reply, bytes) else str(reply).encode()


_shared: list[ValkeyCluster] = []


def shared_cluster() -> ValkeyCluster:
    """The cluster of this test process, formed when it is first wanted and stopped at the end."""
    if not _shared:
        cluster = ValkeyCluster()
        atexit.register(cluster.stop)
        _shared.append(cluster)
    return _shared[0]


@asynccontextmanager
async def valkey_cluster(
    _folder: Path, clock: ManualClock, chance: object, *, fast_paths: bool = True
) -> AsyncIterator[Upkeep]:
    """A store on an empty cluster."""
    assert callable(chance)
    cluster = shared_cluster()
    cluster.empty()
    store = await ClusterStore.open(cluster.url, clock=clock, chance=chance, fast_paths=fast_paths)
    yield store
    await store.close()
    await asyncio.sleep(0)
