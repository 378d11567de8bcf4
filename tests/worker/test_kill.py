"""Workers are killed in the middle of their work: the next one does what is left, and nothing twice."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from pathlib import Path

import pytest

from support.step_worker import Diary, started, worker
from support.stores import chosen
from support.working import Place, place_on

KILLS = int(os.environ.get("FF_KILLS", "10"))
"""On each store, and a few over HTTP; `FF_KILLS=100` for a campaign."""
CAMPAIGN = [
    (store, number)
    for store in chosen(("sqlite", "valkey", "http"))
    for number in range(KILLS if store != "http" else 2)
]


async def written(diary: Diary, line: str, count: int = 1) -> None:
    """Wait until a worker has written something."""
    async with asyncio.timeout(20):
        while diary.lines().count(line) < count:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.005)


async def test_killed_in_the_middle_of_the_third_step(place: Place, tmp_path: Path) -> None:
    diary = Diary(tmp_path / "diary")
    id_ = await place.submit("work")
    async with started(place.url, diary, stop_at=3) as child:
        await written(diary, "begin 3")
        await child.end()
    before = len(diary.lines())
    async with worker(place.url, diary, stop_at=0):
        assert await place.result(id_) == 15
    after = diary.lines()[before:]
    assert after == ["run 1", "begin 3", "end 3", "begin 4", "end 4", "begin 5", "end 5"]


@pytest.mark.parametrize(("store", "number"), CAMPAIGN)
async def test_killed_anywhere(tmp_path: Path, store: str, number: int) -> None:
    chance = random.Random(number)
    diary = Diary(tmp_path / "diary")
    async with place_on(store, tmp_path) as place:
        async with started(place.url, diary) as child:
            await child.ready()
            id_ = await place.submit("work")
            await written(diary, "run 0")
            await asyncio.sleep(chance.random() * 0.03)  # the moment of the kill is what is random here
            await child.end()
        kept = await place.steps(id_)
        before = diary.lines()
        async with worker(place.url, diary, stop_at=0):
            assert await place.result(id_) == 15
    after = diary.lines()[len(before) :]
    for step in range(1, 6):
        again = after.count(f"begin {step}")
        assert again == (0 if f"s{step}" in kept else 1), (step, kept, before, after)


async def test_sigterm_gives_the_task_back_at_once(place: Place, tmp_path: Path) -> None:
    diary = Diary(tmp_path / "diary")
    id_ = await place.submit("work")
    async with started(place.url, diary, stop_at=2) as child:
        await written(diary, "begin 2")
        assert await child.end(signal.SIGTERM) == 0
    assert "released" in await place.events(id_)
    async with worker(place.url, diary, stop_at=0):
        assert await place.result(id_) == 15
    assert diary.lines().count("begin 1") == 1
