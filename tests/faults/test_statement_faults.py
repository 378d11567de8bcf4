"""Whatever statement of a transaction fails, nothing of it is seen, and the same command succeeds afterwards."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from flowfabric.model.command import Command
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.operations.create import CreateExecution
from flowfabric.storage.sqlite import SqliteStore
from support.driver import Driver
from support.faults import Trap, sqlite_fault
from support.simulation import Fleet, Simulation
from support.simulation.compare import same_dumps
from support.simulation.scenarios import Scenario, scenarios, writing_kinds


class Broken(Exception):
    """Not an error of SQLite: a defect, or anything else that nobody expects."""


def store_of(fleet: Fleet) -> SqliteStore:
    (store,) = fleet.stores
    assert isinstance(store, SqliteStore)
    return store


async def staged(fleet: Fleet, kind: type[Command[Any]]) -> Scenario:
    """Bring a store to the place where the command writes."""
    scenario = (await scenarios())[kind]
    await Simulation(0, fleet, every=10_000).repeat(scenario.path)
    same_dumps(scenario.before, await fleet.stores[0].dump(), ("memory", "sqlite"))
    return scenario


async def failing(fleet: Fleet, scenario: Scenario, trap: Trap) -> set[str]:
    """Fail at each statement in turn until none is left; return the codes of the refusals."""
    store = store_of(fleet)
    codes = set()
    place = 0
    while True:
        fleet.begin(scenario.action.lot)
        trap.arm(place)
        (reply,) = await store.apply_many((scenario.action.command,))
        trap.disarm()
        if not trap.sprung:
            break
        assert isinstance(reply, FlowFabricError), reply
        codes.add(reply.code)
        same_dumps(scenario.before, await store.dump(), ("before", f"after {trap.names[-1]} failed"))
        place += 1
    assert trap.names[-1] == "commit"
    assert place == len(trap.names)
    assert place > 2
    assert reply == scenario.reply
    same_dumps(scenario.after, await store.dump(), ("memory", "sqlite"))
    report = await store.repair(fix=False)
    assert report.wrong == ()
    return codes


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", writing_kinds(), ids=lambda kind: kind.__name__)
async def test_a_failing_statement_leaves_nothing_behind(fleet: Fleet, kind: type[Command[Any]]) -> None:
    scenario = await staged(fleet, kind)
    trap = Trap(store_of(fleet), lambda: Broken("simulated"))
    assert await failing(fleet, scenario, trap) == {"internal_error"}


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (sqlite3.SQLITE_FULL, "store_full"),
        (sqlite3.SQLITE_BUSY, "store_busy"),
        (sqlite3.SQLITE_LOCKED, "store_busy"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, "store_busy"),
        (sqlite3.SQLITE_READONLY, "store_unusable"),
        (sqlite3.SQLITE_IOERR, "store_unusable"),
        (sqlite3.SQLITE_CORRUPT, "corruption"),
    ],
)
async def test_faults_of_sqlite_have_names(fleet: Fleet, fault: int, code: str) -> None:
    scenario = await staged(fleet, CreateExecution)
    trap = Trap(store_of(fleet), lambda: sqlite_fault(fault))
    assert await failing(fleet, scenario, trap) == {code}


def creations(ff: Driver, count: int) -> list[CreateExecution]:
    return [CreateExecution(execution_id=ff.new_id(), execution_kind="job") for _ in range(count)]


async def test_a_group_that_fails_once_is_decided_one_by_one(fleet: Fleet) -> None:
    """One bad record must hurt only those who touch it, so a failed group is tried again in parts."""
    store = store_of(fleet)
    ff = Driver(store, fleet.clock)
    trap = Trap(store, lambda: Broken("simulated"))
    place = 0
    while True:
        group = creations(ff, 3)
        trap.arm(place)
        replies = await store.apply_many(group)
        trap.disarm()
        assert [getattr(reply, "execution_id", reply) for reply in replies] == [c.execution_id for c in group]
        if not trap.sprung:
            break
        place += 1
    assert place > 4
    dump = await store.dump()
    assert len(dump.records["execution"]) == 3 * (place + 1)
    assert (await store.repair(fix=False)).wrong == ()


@pytest.mark.parametrize(("fault", "code"), [(sqlite3.SQLITE_FULL, "store_full"), (None, "internal_error")])
async def test_a_group_that_keeps_failing_is_refused_as_a_whole(
    fleet: Fleet, fault: int | None, code: str
) -> None:
    store = store_of(fleet)
    ff = Driver(store, fleet.clock)
    group = creations(ff, 3)
    before = await store.dump()
    trap = Trap(store, lambda: Broken("simulated") if fault is None else sqlite_fault(fault))
    for place in range(4):
        trap.arm(place, once=False)
        replies = await store.apply_many(group)
        trap.disarm()
        assert [reply.code for reply in replies if isinstance(reply, FlowFabricError)] == [code] * 3
        assert await store.dump() == before
    assert len({reply.execution_id for reply in await store.apply_many(group)}) == 3  # type: ignore[union-attr]


async def test_waking_others_never_stops_the_writer(fleet: Fleet) -> None:
    """What is saved is saved: trouble in telling others about it must neither fail the call nor end the thread."""
    store = store_of(fleet)
    ff = Driver(store, fleet.clock)

    def broken(space: object) -> None:
        raise OSError("simulated")

    store._writer._on_saved = broken
    first = await ff.create()
    second = await ff.create()
    assert len({first, second}) == 2
