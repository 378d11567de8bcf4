"""Random sequences on several stores at once: replies, records, indexes and history must be the same everywhere."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from flowfabric.model.command import Command, Question
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.operations.catalog import decidable
from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.operations.operate import Pause
from flowfabric.storage.memory import MemoryStore
from support.clock import ManualClock
from support.simulation import Disagreement, Fleet, Simulation, open_fleet, run_seed
from support.simulation.actions import Action, Apply, Jump, Many
from support.simulation.draw import Draw
from support.simulation.driver import Driver
from support.simulation.making import MAKERS
from support.simulation.shrink import shrink
from support.simulation.world import World

STEPS = 60
PARTS = 12
SEEDS_PER_PART = 26
"""Sequences on a file, in parts so that several workers can share them: about a minute on one core."""
GENERAL_PARTS = 4
CLUSTER_PARTS = 4
SEEDS_PER_CLUSTER_PART = 10
"""Fewer, because each looks at everything in 256 homes again and again."""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("part", range(PARTS))
async def test_a_file_answers_like_the_bare_machine(part: int) -> None:
    for seed in range(part * SEEDS_PER_PART, (part + 1) * SEEDS_PER_PART):
        await run_seed(seed, ("memory", "sqlite"), STEPS)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("part", range(PARTS))
async def test_valkey_answers_like_the_bare_machine(part: int) -> None:
    for seed in range(part * SEEDS_PER_PART, (part + 1) * SEEDS_PER_PART):
        await run_seed(seed, ("memory", "valkey"), STEPS)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("part", range(GENERAL_PARTS))
async def test_valkey_answers_alike_with_and_without_fast_paths(part: int) -> None:
    for seed in range(part * SEEDS_PER_PART, (part + 1) * SEEDS_PER_PART):
        await run_seed(100_000 + seed, ("valkey", "valkey-general"), STEPS)


@pytest.mark.timeout(240)
async def test_a_cluster_without_fast_paths_answers_like_the_bare_machine() -> None:
    for seed in range(200_000, 200_000 + SEEDS_PER_CLUSTER_PART):
        await run_seed(seed, ("memory", "valkey-cluster-general"), STEPS)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("part", range(CLUSTER_PARTS))
async def test_a_cluster_answers_like_the_bare_machine(part: int) -> None:
    for seed in range(part * SEEDS_PER_CLUSTER_PART, (part + 1) * SEEDS_PER_CLUSTER_PART):
        await run_seed(seed, ("memory", "valkey-cluster"), STEPS)


@pytest.mark.timeout(120)
async def test_a_database_without_a_file_answers_like_the_bare_machine() -> None:
    for seed in range(900_000, 900_012):
        await run_seed(seed, ("memory", "sqlite-memory"), STEPS)


def bare() -> Fleet:
    clock = ManualClock()
    return Fleet(("memory",), (MemoryStore(clock=clock, chance=lambda: 0.5),), clock)


def test_every_operation_can_be_made() -> None:
    assert set(MAKERS) == decidable()


@pytest.mark.timeout(120)
async def test_the_driver_reaches_the_success_of_every_operation() -> None:
    """What the sequences above prove is worth something only if they come to every place."""
    good: Counter[type[Command[Any]]] = Counter()
    codes: Counter[str] = Counter()
    seed = 0
    while seed < 40 or (set(MAKERS) - good.keys() and seed < 4_000):
        simulation = Simulation(seed, bare(), every=30)
        await simulation.run(STEPS)
        for command, reply in simulation.exchanges:
            if isinstance(reply, FlowFabricError):
                codes[reply.code] += 1
            else:
                good[type(command)] += 1
        seed += 1
    assert not {kind.__name__ for kind in set(MAKERS) - good.keys()}
    assert len(codes) > 40, codes


async def test_a_seed_says_everything() -> None:
    """The same seed gives the same commands and the same contents, so that a failure can be seen again."""
    simulations = [Simulation(7, bare()) for _ in range(2)]
    for simulation in simulations:
        await simulation.run(STEPS)
    one, two = simulations
    assert one.actions == two.actions
    assert await one.fleet.stores[0].dump() == await two.fleet.stores[0].dump()


async def test_given_actions_repeat_a_run(tmp_path: Path) -> None:
    first = Simulation(11, bare())
    await first.run(STEPS)
    async with open_fleet(("memory", "sqlite"), tmp_path / "fleet") as fleet:
        again = Simulation(0, fleet)
        await again.repeat(first.actions)
        assert len(again.exchanges) == len(first.exchanges)


async def test_a_store_that_forgets_is_found_out() -> None:
    """The net itself must hold: a store that loses one write in a long sequence is noticed."""
    clock = ManualClock()
    stores = [MemoryStore(clock=clock, chance=lambda: 0.5) for _ in range(2)]
    simulation = Simulation(3, Fleet(("memory", "forgetful"), stores, clock))
    save = stores[1].tables.save

    def forget(space: Any) -> None:
        if not any(event.event == "completed" for _, event in space.events):
            save(space)

    stores[1].tables.save = forget  # type: ignore[method-assign]
    with pytest.raises(Disagreement):
        await simulation.run(400)


async def test_a_failing_sequence_is_made_short() -> None:
    draw = Draw(random.Random(5))
    world = World(0)
    driver = Driver(world, draw)
    needle = CreateExecution(execution_id=draw.execution_id(), execution_kind="needle")
    other = Pause(execution_id=needle.execution_id)
    actions: list[Action] = [driver.next() for _ in range(50)]
    actions[20:20] = [Many((other, needle, other))]
    actions[40:40] = [Jump(77)]

    async def fails(candidate: Any) -> bool:
        jumped = any(isinstance(action, Jump) and action.ms == 77 for action in candidate)
        return jumped and any(needle in action.commands for action in candidate if isinstance(action, Many))

    assert await shrink(actions, fails) == [Many((needle,)), Jump(77)]


async def test_questions_go_through_readers() -> None:
    simulation = Simulation(1, bare())
    await simulation.run(STEPS)
    asked = [
        a.command for a in simulation.actions if isinstance(a, Apply) and isinstance(a.command, Question)
    ]
    assert asked
