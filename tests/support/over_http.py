"""A store behind a real server, used through the HTTP client: real sockets, the real app, SQLite behind.

What crosses HTTP is declared in `flowfabric.wire`; everything else, and nothing more, is the
engine's and goes to the store behind the server (`BEHIND`).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import uvicorn
from msgspec.structs import replace

from flowfabric.client import HttpClient
from flowfabric.client.requests import NOT_OFFERED
from flowfabric.model.command import Command, Question
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.ids import Partitions
from flowfabric.model.operations.claim import Claim, Claimed
from flowfabric.model.operations.stream import StreamPage, TailStream
from flowfabric.model.records import Execution
from flowfabric.server.http.listener import _Http
from flowfabric.server.http.transport import TransportLimits, protocol_with
from flowfabric.server.server import Server
from flowfabric.storage.base import Dump, RepairReport, StoreTraits, Subscription, Upkeep
from flowfabric.storage.sqlite import SqliteStore
from support.clock import ManualClock

BEHIND: Final = frozenset(NOT_OFFERED)
"""Commands and questions of the engine: they never cross HTTP, so the suite sends them to the store itself."""

DIFFERENT: Final = {
    "test_the_leases_of_the_dead_are_taken_one_by_one[http]": "over HTTP the dead lose their leases in the same call",
    "test_lease_given_back_or_lost_is_claimable_at_once[http-lose-worker_dead-worker_dead-1]": (
        "over HTTP the dead lose their leases in the same call, so that none is left to take"
    ),
}
"""What is necessarily otherwise over HTTP, and why. These run too, and must fail."""


class OverHttp:
    """The client for clients and workers, and the store behind for the engine."""

    def __init__(self, client: HttpClient, behind: Upkeep) -> None:
        self.client = client
        self.behind = behind

    @property
    def partitions(self) -> Partitions:
        return self.client.partitions

    @property
    def traits(self) -> StoreTraits:
        return replace(self.client.traits, is_direct=True, makes_links=False)

    async def apply(self, command: Command[Any]) -> Any:
        return await (self.behind if type(command) in BEHIND else self.client).apply(command)

    async def apply_many(self, commands: Sequence[Command[Any]]) -> list[Any | FlowFabricError]:
        if any(type(command) in BEHIND for command in commands):
            assert all(type(command) in BEHIND for command in commands), "a list is for one side"
            return await self.behind.apply_many(commands)
        return await self.client.apply_many(commands)

    async def read(self, question: Question[Any]) -> Any:
        return await (self.behind if type(question) in BEHIND else self.client).read(question)

    def subscribe(
        self, topics: Iterable[str], namespace: str = ""
    ) -> AbstractAsyncContextManager[Subscription]:
        wanted = list(topics)
        return (self.behind if "due" in wanted or namespace else self.client).subscribe(wanted, namespace)

    async def close(self) -> None:
        await self.client.close()

    async def claim_within(self, claim: Claim, wait_ms: int) -> Claimed:
        return await self.client.claim_within(claim, wait_ms)

    async def tail_within(self, question: TailStream, wait_ms: int) -> StreamPage:
        return await self.client.tail_within(question, wait_ms)

    async def end_within(self, execution_id: str, wait_ms: int) -> Execution:
        return await self.client.end_within(execution_id, wait_ms)

    def now(self) -> int:
        return self.behind.now()

    def expect_due(self, due_at: int) -> None:
        self.behind.expect_due(due_at)

    def next_due(self) -> int:
        return self.behind.next_due()

    async def acquire_leader_lease(self, name: str, holder: str, ttl_ms: int) -> bool:
        return await self.behind.acquire_leader_lease(name, holder, ttl_ms)

    async def release_leader_lease(self, name: str, holder: str) -> None:
        await self.behind.release_leader_lease(name, holder)

    async def collect(self, limit: int = 1000) -> int:
        return await self.behind.collect(limit)

    async def repair(self, *, fix: bool = True) -> RepairReport:
        return await self.behind.repair(fix=fix)

    async def dump(self) -> Dump:
        return await self.behind.dump()


@asynccontextmanager
async def served(store: Upkeep, port: int = 0, **options: Any) -> AsyncIterator[str]:
    """Serve a store on a free loopback port, without an engine of its own: the tests move time. Yields the URL."""
    server = Server(store, **options)
    listener = socket.socket(proto=socket.IPPROTO_TCP)  # else asyncio leaves Nagle on: 40 ms a reply
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    config = uvicorn.Config(
        server.app,
        http=protocol_with(TransportLimits(), server.unread),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
    )
    http = _Http(config)
    config.load()
    http.lifespan = config.lifespan_class(config)
    await http.startup(sockets=[listener])
    server.address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        yield server.address
    finally:
        for opened in http.servers:
            opened.close()
        listener.close()
        server.stop()
        for connection in list(http.server_state.connections):
            connection.shutdown()
        while http.server_state.connections or http.server_state.tasks:  # noqa: ASYNC110 - uvicorn has no event
            await asyncio.sleep(0)


@asynccontextmanager
async def over_http(folder: Path, clock: ManualClock, chance: Any) -> AsyncIterator[Upkeep]:
    """SQLite in memory behind a server."""
    store = await SqliteStore.open(":memory:", clock=clock, chance=chance)
    try:
        async with served(store) as url:
            client = await HttpClient.open(url)
            try:
                yield OverHttp(client, store)
            finally:
                await client.close()
    finally:
        await store.close()
