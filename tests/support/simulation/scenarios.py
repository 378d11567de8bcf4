"""For every operation that writes: actions that lead to a place where it does, found by simulation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from flowfabric.model.contracts.base import Command
from flowfabric.model.contracts.reads import Question
from flowfabric.model.errors import FlowFabricError
from flowfabric.storage.base import Dump
from flowfabric.storage.memory import MemoryStore
from support.clock import ManualClock
from support.simulation.actions import Action, Apply
from support.simulation.fleet import Fleet, Lot
from support.simulation.making import MAKERS
from support.simulation.simulation import Simulation

Kind = type[Command[Any]]
STEPS = 60
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


async def scenarios() -> Mapping[Kind, Scenario]:
    """Find one for every operation; once in a process."""
    wanted = set(writing_kinds())
    seed = 0
    while wanted - _found.keys() and seed < MOST_SEEDS:
        await _search(seed)
        seed += 1
    return _found


async def _search(seed: int) -> None:
    clock, lot = ManualClock(), Lot()
    fleet = Fleet(("memory",), (MemoryStore(clock=clock, chance=lot),), clock)
    fleet.lots = [lot]
    simulation = Simulation(seed, fleet, every=STEPS)
    for _ in range(STEPS):
        before = await fleet.stores[0].dump()
        action = simulation.driver.next()
        path = tuple(simulation.actions)
        await simulation.perform(action)
        if isinstance(action, Apply) and type(action.command) not in _found:
            reply = simulation.exchanges[-1][1]
            after = await fleet.stores[0].dump()
            if after != before and not isinstance(reply, FlowFabricError):
                _found[type(action.command)] = Scenario(path, action, reply, before, after)
