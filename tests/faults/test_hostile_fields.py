"""Fields that no careful caller sends: every one is refused in words or answered, and by all stores alike."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, get_type_hints

import pytest
from msgspec import Struct
from msgspec.structs import replace

from flowfabric.model.command import Command
from flowfabric.model.errors import FlowFabricError, InvalidInput
from flowfabric.model.operations.catalog import decidable
from flowfabric.model.operations.stream import AppendFrames
from support.simulation import open_fleet
from support.simulation.compare import same_replies
from support.simulation.draw import Draw
from support.simulation.fleet import Fleet
from support.simulation.making import MAKERS, Hand
from support.simulation.scenarios import scenarios
from support.simulation.simulation import Simulation, send

Kind = type[Command[Any]]
HOSTILE: Final[dict[type, tuple[Any, ...]]] = {
    str: ("\ud800", "x" * 70_000, "a\x00b", ""),
    int: (2**70, -(2**70), 2**53, -1),
    bytes: (b"x" * 2_000_000,),
    tuple: ((),),
}


async def staged(fleet: Fleet, kind: Kind) -> Command[Any]:
    """Bring the stores to a place where the command means something, and make it."""
    simulation = Simulation(0, fleet, every=10_000)
    found = await scenarios()
    if kind in found:
        await simulation.repeat(found[kind].path)
        return found[kind].action.command
    streaming = found[AppendFrames]
    await simulation.repeat((*streaming.path, streaming.action))
    known = next(run for run in simulation.world.runs.values() if run.state == "active")
    for seed in range(1, 100):
        made = MAKERS[kind](Hand(simulation.world, Draw(random.Random(seed)), known))
        with contextlib.suppress(FlowFabricError):
            made.check()
            return made
    raise AssertionError(f"no {kind.__name__} is sound")


def kinds() -> list[Kind]:
    """Every operation and every question."""
    return sorted(decidable(), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
async def test_no_field_reaches_a_store_unchecked(tmp_path: Path, kind: Kind) -> None:
    async with open_fleet(("memory", "sqlite"), tmp_path / "fleet") as fleet:
        good = await staged(fleet, kind)
        numbers = {name for name, form in get_type_hints(kind).items() if form == int | None}
        for field in good.__struct_fields__:
            held = getattr(good, field)
            for value in HOSTILE.get(int if field in numbers else type(held), ()):
                bad = replace(good, **{field: value})
                fleet.begin(1)
                first, second = [await send(store, bad) for store in fleet.stores]
                assert getattr(first, "code", "") != "internal_error", (field, value, first)
                same_replies(f"{kind.__name__}.{field}", first, second, ("memory", "sqlite"))


def _with_integers(value: Any) -> Iterator[tuple[str, Callable[[int], Any]]]:
    """Find every integer inside a value; yields its path and a function that puts another one there."""
    if isinstance(value, int) and not isinstance(value, bool):
        yield "", lambda number: number
    elif isinstance(value, Struct):
        optional = {name for name, hint in get_type_hints(type(value)).items() if hint == int | None}
        for name in value.__struct_fields__:
            for path, put in _with_integers(0 if name in optional else getattr(value, name)):
                yield f"{name}.{path}".rstrip("."), partial(_in_field, value, name, put)
    elif isinstance(value, tuple):
        for place, item in enumerate(value):
            for path, put in _with_integers(item):
                yield f"{place}.{path}".rstrip("."), partial(_in_tuple, value, place, put)


def _in_field(value: Struct, name: str, put: Callable[[int], Any], number: int) -> Struct:
    return replace(value, **{name: put(number)})


def _in_tuple(value: tuple[Any, ...], place: int, put: Callable[[int], Any], number: int) -> tuple[Any, ...]:
    return (*value[:place], put(number), *value[place + 1 :])


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
async def test_integers_beyond_what_stores_keep_are_refused_by_name(tmp_path: Path, kind: Kind) -> None:
    async with open_fleet(("memory",), tmp_path / "fleet") as fleet:
        good = await staged(fleet, kind)
        for path, put in _with_integers(good):
            for number in (2**53, 2**64, 2**70, -(2**53), -(2**70)):
                refusal = await send(fleet.stores[0], put(number))
                assert isinstance(refusal, InvalidInput), (path, number, refusal)
                assert refusal.field.split(".")[-1] in path.split("."), (path, refusal)
