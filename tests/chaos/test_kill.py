"""Processes that share a file are killed in the middle of their work: nothing that was acknowledged is lost."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from flowfabric.storage.sqlite import SqliteStore
from support.chaos.checker import Checker, Fact
from support.chaos.children import Child, family, start

ROUNDS = 6
KILLS_PER_ROUND = 7
AT_ONCE = 2
"""Further kills come at the end of a round, when the last children go: 6 x (7 + 2) = 54 in all."""


async def sound(path: Path, facts: list[Fact]) -> None:
    """Look at the file from outside, and ask the store itself whether its indexes fit."""
    Checker(path).check(facts)
    store = await SqliteStore.open(path)
    try:
        report = await store.repair(fix=False)
    finally:
        await store.close()
    assert report.wrong == ()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("number", range(ROUNDS))
async def test_nothing_acknowledged_is_lost(tmp_path: Path, number: int) -> None:
    path = tmp_path / "flowfabric.db"
    chances = random.Random(number)
    facts: list[Fact] = []
    kills = 0
    async with family() as children:

        async def begin() -> Child:
            child = await start(
                "stream", str(path), f"child-{number}-{len(children)}", str(chances.getrandbits(32))
            )
            children.append(child)
            return child

        living = [await begin() for _ in range(AT_ONCE)]
        while living:
            victim = living.pop(chances.randrange(len(living)))
            await victim.heard(len(victim.facts) + chances.randint(1, 150))
            assert victim.process.returncode is None, "it ended by itself"
            facts += await victim.kill()
            kills += 1
            await sound(path, facts)
            if kills <= KILLS_PER_ROUND:
                living.append(await begin())
    kinds = {fact["fact"] for fact in facts}
    assert kills == KILLS_PER_ROUND + AT_ONCE
    assert {"submit", "claim", "complete"} <= kinds


async def test_the_checker_notices_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "flowfabric.db"
    async with family() as children:
        child = await start("stream", str(path), "child", "1")
        children.append(child)
        await child.heard(60)
        facts = await child.kill()
    Checker(path).check(facts)
    lost = [fact | {"id": "{fp:1}:00000000-0000-4000-8000-000000000000"} for fact in facts if "id" in fact]
    for kind in {fact["fact"] for fact in lost}:
        with pytest.raises(AssertionError, match="not there"):
            Checker(path).check([next(fact for fact in lost if fact["fact"] == kind)])
