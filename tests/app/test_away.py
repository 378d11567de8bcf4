"""Stores that go away: whoever waits for a run goes on waiting, and misses nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest

from flowfabric import FlowFabric, Frame, Run
from flowfabric.app.retrying import retry_while_away
from flowfabric.storage import open_store
from flowfabric.storage.base import Upkeep
from support.clock import ManualClock
from support.face import Face
from support.over_http import served
from support.stores import chosen
from support.until import until
from support.valkey import ValkeyServer


class Place(Protocol):
    """A store that can go away and come back."""

    url: str

    async def go_away(self) -> None: ...
    async def come_back(self) -> None: ...
    async def reach(self) -> Upkeep: ...


class Server:
    """A server whose port stays the same."""

    def __init__(self, store: Upkeep) -> None:
        self.store = store
        self.port = 0
        self.stack = AsyncExitStack()
        self.url = ""

    async def come_back(self) -> None:
        self.url = await self.stack.enter_async_context(served(self.store, self.port))
        self.port = int(self.url.rpartition(":")[2])

    async def go_away(self) -> None:
        await self.stack.aclose()

    async def reach(self) -> Upkeep:
        return self.store


class Valkey:
    """A Valkey that writes everything down before it answers."""

    def __init__(self) -> None:
        self.server = ValkeyServer("--appendonly", "yes", "--appendfsync", "always")
        self.url = self.server.url

    async def come_back(self) -> None:
        await asyncio.to_thread(self.server.start)

    async def go_away(self) -> None:
        await asyncio.to_thread(self.server.kill)

    async def reach(self) -> Upkeep:
        return await open_store(self.url, patience=20)  # it may still be loading what it wrote down


@asynccontextmanager
async def _http(folder: Path) -> AsyncIterator[Place]:
    store = await open_store(str(folder / "behind.db"))
    server = Server(store)
    await server.come_back()
    yield server
    await server.go_away()
    await store.close()


@asynccontextmanager
async def _valkey(_folder: Path) -> AsyncIterator[Place]:
    place = Valkey()
    yield place
    await asyncio.to_thread(place.server.stop)


PLACES = {"http": _http, "valkey": _valkey}


@pytest.fixture(params=chosen(PLACES))
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with PLACES[request.param](tmp_path) as found:
        yield found


def program(url: str) -> FlowFabric:
    app = FlowFabric(url)
    app.task(name="job")(lambda: 42)
    return app


async def test_result_comes_through_a_restart(place: Place) -> None:
    app = program(place.url)
    async with app:
        run = await app.submit("job")
        waiting = asyncio.create_task(run.result(timeout="50s"))
        await run.status()
        await place.go_away()
        await place.come_back()
        behind = await place.reach()
        await Face(behind, behind, ManualClock()).work(app)
        assert await waiting == 42
        await behind.close()


async def test_stream_misses_nothing_and_repeats_nothing_through_a_restart(place: Place) -> None:
    app = program(place.url)
    async with app:
        run = await app.submit("job")
        behind = await place.reach()
        face = Face(behind, behind, ManualClock())
        task = await face.claim()
        await face.emit(task, "a", "b")
        texts: list[str] = []
        async for item in run.stream():
            if not isinstance(item, Frame):
                continue
            texts.append(item.text)
            if item.text == "b":
                await place.go_away()
                await place.come_back()
                await retry_while_away(
                    lambda: face.emit(task, "c")
                )  # it may still be loading what it wrote down
                await face.fail(task, "the end")
        assert texts == ["a", "b", "c"]
        await behind.close()


async def test_stream_may_begin_while_the_store_is_away(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "flowfabric")
    app = program(place.url)
    async with app:
        run = await app.submit("job")
        behind = await place.reach()
        face = Face(behind, behind, ManualClock())
        task = await face.claim()
        await face.emit(task, "a")
        await face.fail(task, "the end")
        await place.go_away()
        caplog.clear()
        reading = asyncio.create_task(texts_of(run))
        await until(lambda: caplog.records)
        await place.come_back()
        assert await asyncio.wait_for(reading, 40) == ["a"]
        await behind.close()


async def texts_of(run: Run[Any]) -> list[str]:
    return [item.text async for item in run.stream() if isinstance(item, Frame)]


async def test_submission_comes_through_a_restart_once(place: Place) -> None:
    app = program(place.url)
    async with app:
        await app.submit("job")
        await place.go_away()
        submitting = asyncio.create_task(app.submit("job"))
        await place.come_back()
        run = await submitting
        assert not run.duplicate
        assert (await retry_while_away(run.status)).state == "waiting"


async def test_limit_of_the_caller_holds_while_the_store_is_away(place: Place) -> None:
    app = program(place.url)
    async with app:
        run = await app.submit("job")
        await place.go_away()
        with pytest.raises(TimeoutError, match="the store does not answer"):
            await run.result(timeout="100ms")
        await place.come_back()
