"""The app for code that is not async, and the store that an app opens by itself."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from flowfabric import Context, FlowFabric, Frame, TaskFailed
from flowfabric.model.errors import InvalidInput
from flowfabric.storage import open_store
from support.over_http import served
from support.stores import chosen
from support.valkey import empty_server


@asynccontextmanager
async def sqlite(folder: Path) -> AsyncIterator[str]:
    yield str(folder / "work.db")


@asynccontextmanager
async def valkey(_folder: Path) -> AsyncIterator[str]:
    async with empty_server() as server:
        yield server.url


@asynccontextmanager
async def http(folder: Path) -> AsyncIterator[str]:
    store = await open_store(str(folder / "behind.db"))
    async with served(store) as url:
        yield url
    await store.close()


PLACES = {"sqlite": sqlite, "valkey": valkey, "http": http}


@pytest.fixture(params=chosen(PLACES))
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with PLACES[request.param](tmp_path) as place:
        yield place


def program(url: str) -> FlowFabric:
    app = FlowFabric(url)

    @app.task
    async def talk(ctx: Context, n: int) -> int:
        answer = await ctx.wait_for_signal("approve", "reject")
        await ctx.emit("token", "hello")
        if answer.name == "reject":
            raise ValueError("rejected")
        return 2 * n

    return app


def use(app: FlowFabric) -> list[object]:
    """What a script does."""
    run = app.sync.submit("talk", 4)
    run.approve(by="ada", within="30s")
    told: list[object] = [run.result(timeout="30s"), run.status().state]
    told += [item.text for item in run.stream() if isinstance(item, Frame)]
    told += [event.event for event in run.history()][:2]
    second = app.sync.options(tags={"team": "a"}).submit("talk", 5)
    second.reject(within="30s")
    try:
        second.result(timeout="30s")
    except TaskFailed as failure:
        told.append(failure.reason)
    (third,) = app.sync.submit_many([app.call("talk", 6)])
    third.cancel("enough")
    told += [app.sync.run(third.id).status().state, "ended" in str(third.explain())]
    app.sync.close()
    return told


async def test_sync_face_does_all_that_the_other_does(url: str) -> None:
    app = program(url)
    async with app.worker():
        told = await asyncio.to_thread(use, app)
    assert told == [8, "completed", "hello", "created", "claimed", "ValueError: rejected", "cancelled", True]


async def test_sync_face_refuses_to_block_an_event_loop(url: str) -> None:
    app = program(url)
    with pytest.raises(RuntimeError, match=r"would block the event loop: await app\.submit"):
        app.sync.submit("talk", 1)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_process_starts_a_loop_of_its_own(tmp_path: Path) -> None:
    app = program(str(tmp_path / "work.db"))
    app.sync.submit("talk", 1)
    context = multiprocessing.get_context("fork")
    ids: multiprocessing.SimpleQueue[str] = context.SimpleQueue()
    child = context.Process(target=lambda: ids.put(app.sync.submit("talk", 2).id))
    child.start()
    found = app.sync.run(ids.get()).status()
    child.join()
    app.sync.close()
    assert found.state == "waiting"


async def test_store_of_ones_own_lives_on_one_loop(tmp_path: Path) -> None:
    store = await open_store(str(tmp_path / "work.db"))
    with pytest.raises(InvalidInput, match="give it a URL instead"):
        _ = FlowFabric(store=store).sync
    with pytest.raises(InvalidInput, match="a URL or a store, not both"):
        FlowFabric("work.db", store=store)
    await store.close()


def test_app_moves_from_one_loop_to_the_next(tmp_path: Path) -> None:
    app = program(str(tmp_path / "work.db"))

    async def once() -> str:
        async with app:
            return (await app.submit("talk", 1)).id

    assert asyncio.run(once()) != asyncio.run(once())


def test_app_on_two_loops_at_once_is_refused(tmp_path: Path) -> None:
    app = program(str(tmp_path / "work.db"))

    async def both() -> None:
        async with app:
            with pytest.raises(RuntimeError, match=r"use app\.sync there"):
                await asyncio.to_thread(asyncio.run, app.submit("talk", 1))

    asyncio.run(both())


def test_without_a_url_the_environment_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FF_STORE", str(tmp_path / "env.db"))
    app = program("")
    app.sync.submit("talk", 1)
    app.sync.close()
    assert (tmp_path / "env.db").exists()
