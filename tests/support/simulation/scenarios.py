"""For every operation that writes: actions that lead to a place where it does, found by simulation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from flowfabric.model.command import Command, Question
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.operations.timer import ReadDue, due_commands
from flowfabric.storage.base import Dump
from flowfabric.storage.memory import MemoryStore
from support.clock import ManualClock
from support.simulation.actions import Action, Apply, Many, Sweep
from support.simulation.fleet import Fleet, Lot
from support.simulation.making import MAKERS
from support.simulation.simulation import Simulation

Kind = type[Command[Any]]
STEPS = 60
EASY_SEEDS = 40
"""After these, what was not reached yet is tried again and again."""
MOST_SEEDS = 600


class Scenario(Struct, frozen=True):
    """What leads there, the command, its answer, and what is held before and after it."""

    path: tuple[Action, ...]
    action: Apply
    reply: Any
    before: Dump
    after: Dump


def writing_kinds() -> list[Kind]:
    """Every operation that can change something."""
    import support.simulation.driver  # noqa: F401, PLC0415 - registers the makers

    return sorted((kind for kind in MAKERS if not issubclass(kind, Question)), key=lambda kind: kind.__name__)


_found: dict[Kind, Scenario] = {}
_tried: list[int] = []


async def scenarios() -> Mapping[Kind, Scenario]:
    """Find one for every operation; once in a process."""
    wanted = set(writing_kinds())
    while wanted - _found.keys() and len(_tried) < MOST_SEEDS:
        _tried.append(len(_tried))
        missing = sorted(wanted - _found.keys(), key=lambda kind: kind.__name__)
        await _search(_tried[-1], missing if len(_tried) > EASY_SEEDS else [])
    return _found


async def _search(seed: int, rare: list[Kind]) -> None:
    clock, lot = ManualClock(), Lot()
    fleet = Fleet(("memory",), (MemoryStore(clock=clock, chance=lot),), clock)
    fleet.lots = [lot]
    simulation = Simulation(seed, fleet, every=STEPS)
    driver = simulation.driver
    for _ in range(STEPS):
        action = driver.next()
        if rare and driver.draw.chance(0.2):
            action = Apply(driver.make(driver.draw.pick(rare)))
        for each in await _single(fleet, action):
            await _try(simulation, each)


async def _single(fleet: Fleet, action: Action) -> list[Action]:
    """Take sweeps and groups apart, so that each command stands alone."""
    if isinstance(action, Many):
        return [Apply(command, lot=action.lot) for command in action.commands]
    if not isinstance(action, Sweep):
        return [action]
    page = await fleet.stores[0].read(ReadDue(limit=action.limit))
    return [
        Apply(command, lot=action.lot)
        for entry in page.entries
        for command in due_commands(entry, fleet.clock.now)
    ]


async def _try(simulation: Simulation, action: Action) -> None:
    store = simulation.fleet.stores[0]
    path = tuple(simulation.actions)
    before = await store.dump()
    await simulation.perform(action)
    if isinstance(action, Apply) and type(action.command) not in _found:
        reply = simulation.exchanges[-1][1]
        after = await store.dump()
        if after != before and not isinstance(reply, FlowFabricError):
            _found[type(action.command)] = Scenario(path, action, reply, before, after)
