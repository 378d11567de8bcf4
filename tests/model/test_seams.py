"""Where later features join: admission between finding and leasing work, and kinds of records that fall due."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.engine.timers import Timers
from flowfabric.model import indexes
from flowfabric.model.command import Command
from flowfabric.model.machine.workspace import Cause, Workspace
from flowfabric.model.operations import claim, timer
from flowfabric.model.operations.lane import PauseLane, UnpauseLane
from flowfabric.model.record_kinds import LANE
from flowfabric.model.records import Execution, Lane
from flowfabric.model.state import Blocking, Eligibility
from flowfabric.model.transitions import BLOCKED, move
from flowfabric.storage.memory import MemoryStore
from support.clock import ManualClock
from support.driver import Driver


@pytest.fixture
def ff() -> Driver:
    clock = ManualClock()
    return Driver(MemoryStore(clock=clock), clock)


async def test_work_that_is_not_admitted_makes_room_for_other_work(
    ff: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await ff.create(priority=2)
    second = await ff.create(priority=1)

    def admit(space: Workspace, run: Execution) -> bool:
        if run.execution_id == second:
            return True
        blocked = move(
            run, BLOCKED, space.now, eligibility_state=Eligibility.QUOTA, blocking_reason=Blocking.QUOTA
        )
        space.put_execution(blocked, BLOCKED.event, Cause("quota"), before=run.public_state)
        return False

    monkeypatch.setattr(claim, "admit", admit)
    task = await ff.claim_one()
    assert task.execution_id == second
    assert (await ff.show(first)).blocking_reason is Blocking.QUOTA


async def test_any_kind_of_record_can_fall_due(ff: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    def due_at(lane: Lane) -> int:
        return lane.paused_at and lane.paused_at + 1_000

    def commands(lane: Lane, now: int) -> list[Command[Any]]:
        assert lane.paused_at + 1_000 <= now
        return [UnpauseLane(lane_id=lane.lane_id)]

    monkeypatch.setitem(indexes.DUE_AT, LANE, due_at)
    monkeypatch.setitem(timer.DUE_COMMANDS, LANE, commands)
    await ff.store.apply(PauseLane(lane_id="default"))
    timers = Timers(ff.store)
    ff.clock.advance(999)
    assert await timers.fire_due() == 0
    ff.clock.advance(1)
    assert await timers.fire_due() == 1
    assert (await ff.store.dump()).records[LANE]["default",].paused_at == 0
