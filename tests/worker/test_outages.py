"""Stores and servers go away and come back: workers wait, and go on."""

from __future__ import annotations

import asyncio
from pathlib import Path

from flowfabric.engine import Engine, wait_until_ended
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.ids import spread
from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.operations.read import ListAttempts
from flowfabric.storage import open_store
from flowfabric.storage.base import Commands
from flowfabric.storage.minting import new_uuid
from flowfabric.storage.sqlite import SqliteStore
from flowfabric.worker import Context, Runtime, WorkerSettings
from support.over_http import served
from support.valkey import ValkeyServer
from support.working import table

SETTINGS = WorkerSettings(lease_ttl="20s", grace=0)


async def submit(store: Commands) -> str:
    id_ = spread(new_uuid(), store.partitions)
    await store.apply(CreateExecution(execution_id=id_, execution_kind="work", input_payload=b"{}"))
    return id_


async def ended(store: Commands, execution_id: str) -> str:
    """Wait for the end through whatever happens to the store."""
    async with asyncio.timeout(40):
        while True:
            try:
                run = await wait_until_ended(store, execution_id, 20_000)
            except FlowFabricError:
                await asyncio.sleep(0.05)
            else:
                return str(run.public_state)


class Gate:
    """A handler that stands still between two steps until the test lets it go on."""

    def __init__(self) -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def work(self, ctx: Context) -> str:
        await ctx.step("one", str, "x")
        self.begun.set()
        await self.go.wait()
        await ctx.emit("token", "after")
        return await ctx.step("two", str, "y")


async def test_a_valkey_server_is_stopped_and_started() -> None:
    server = ValkeyServer("--appendonly", "yes", "--appendfsync", "always")
    try:
        store = await open_store(server.url)
        gate = Gate()
        async with Engine(store), Runtime(server.url, table(gate.work), SETTINGS):
            first = await submit(store)
            await asyncio.wait_for(gate.begun.wait(), 20)
            server.kill()
            gate.go.set()  # it goes on while nothing answers
            await asyncio.to_thread(server.start)
            assert await ended(store, first) == "completed"
            assert len(await store.read(ListAttempts(execution_id=first))) == 1
            assert await ended(store, await submit(store)) == "completed"
        await store.close()
    finally:
        server.stop()


async def test_a_server_is_stopped_and_started(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "work.db")
    gate = Gate()
    try:
        async with Engine(store):
            async with served(store) as url:
                runtime = Runtime(url, table(gate.work), SETTINGS)
                await runtime.__aenter__()
                first = await submit(store)
                await asyncio.wait_for(gate.begun.wait(), 20)
            gate.go.set()  # it goes on while nothing answers
            async with served(store, port=int(url.rpartition(":")[2])):
                assert await ended(store, first) == "completed"
                assert len(await store.read(ListAttempts(execution_id=first))) == 1
                assert await ended(store, await submit(store)) == "completed"
                await runtime.__aexit__(None, None, None)
    finally:
        await store.close()
