"""Several processes on one file: each task is executed once, and news crosses from one to the other."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from flowfabric.storage.sqlite import SqliteStore
from support.chaos.children import family, start
from support.clock import ManualClock
from support.driver import Driver

NEVER = "3600"
"""Seconds between two looks at the file: too many to help."""
OFTEN = "0.01"


@pytest.mark.timeout(120)
async def test_each_task_is_executed_exactly_once(tmp_path: Path) -> None:
    path = tmp_path / "flowfabric.db"
    store = await SqliteStore.open(path)
    ff = Driver(store, ManualClock())
    made = {await ff.create() for _ in range(150)}
    await store.close()
    async with family() as children:
        for number in range(3):
            children.append(await start("claimer", str(path), f"claimer-{number}"))
        for child in children:
            await child.fact("ready")
        for child in children:
            child.tell("go")
        said = [fact for child in children for fact in await child.end()]
    executed = Counter(fact["id"] for fact in said if fact["fact"] == "executed")
    assert set(executed) == made
    assert set(executed.values()) == {1}
    store = await SqliteStore.open(path)
    dump = await store.dump()
    assert dump.counts == {("default", "default", "completed"): len(made)}
    assert {run.total_attempt_count for run in dump.records["execution"].values()} == {1}
    assert (await store.repair(fix=False)).wrong == ()
    await store.close()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("topic", ["lane:default", "feed"])
async def test_a_submit_wakes_a_claimer_in_another_process(tmp_path: Path, topic: str) -> None:
    path = tmp_path / "flowfabric.db"
    store = await SqliteStore.open(path)
    ff = Driver(store, ManualClock())
    async with family() as children:
        children.append(await start("waiter", str(path), NEVER, topic))
        await children[0].fact("listening")
        made = await ff.create()
        assert await children[0].fact("woken") == {"fact": "woken", "woken": True, "tasks": [made]}
    await store.close()


@pytest.mark.timeout(120)
async def test_without_word_from_others_a_look_at_the_file_wakes(tmp_path: Path) -> None:
    """The safety net: whoever cannot be told finds out."""
    path = tmp_path / "flowfabric.db"
    store = await SqliteStore.open(path)
    assert store._peers is not None
    store._peers.send = lambda topics, due_at: None  # type: ignore[method-assign]
    ff = Driver(store, ManualClock())
    async with family() as children:
        children.append(await start("waiter", str(path), OFTEN, "lane:default"))
        await children[0].fact("listening")
        made = await ff.create()
        assert await children[0].fact("woken") == {"fact": "woken", "woken": True, "tasks": [made]}
    await store.close()


@pytest.mark.timeout(120)
async def test_the_socket_of_a_killed_process_is_no_hindrance(tmp_path: Path) -> None:
    path = tmp_path / "flowfabric.db"
    store = await SqliteStore.open(path)
    ff = Driver(store, ManualClock())
    async with family() as children:
        for _ in range(2):
            children.append(await start("waiter", str(path), NEVER, "lane:default"))
        for child in children:
            await child.fact("listening")
        await children[0].kill()
        made = await ff.create()
        assert (await children[1].fact("woken"))["tasks"] == [made]
    await ff.create()
    await store.close()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("turn", range(3))
async def test_processes_may_open_a_new_file_together(tmp_path: Path, turn: int) -> None:
    """All want to switch the journal and to make the tables; each waits for its turn."""
    path = tmp_path / "flowfabric.db"
    async with family() as children:
        for _ in range(3):
            children.append(await start("opener", str(path)))
        for child in children:
            await child.fact("ready")
        for child in children:
            child.tell("go")
        for child in children:
            await child.fact("opened")
            await child.end()
            assert child.process.returncode == 0
