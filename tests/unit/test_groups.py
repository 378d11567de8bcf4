"""Defects inside a step stay with the command that met them."""

from __future__ import annotations

import pytest

from flowfabric.model.errors import InternalError
from flowfabric.model.machine import group
from flowfabric.model.machine.workspace import Workspace
from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.operations.operate import SetTags
from flowfabric.model.record_kinds import EXECUTION, LANE
from flowfabric.storage.memory import MemoryStore
from support.clock import ManualClock
from support.driver import Driver

TAGS = (("a", "b"),)


@pytest.fixture
def ff() -> Driver:
    clock = ManualClock()
    return Driver(MemoryStore(clock=clock), clock)


def creation(ff: Driver) -> CreateExecution:
    return CreateExecution(execution_id=ff.new_id(), execution_kind="job")


async def test_a_defect_writes_nothing_and_spares_its_neighbours(
    ff: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = await ff.create()

    def broken(space: Workspace, command: SetTags) -> None:
        space.put(EXECUTION, command.execution_id, value=None)
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(group, "_STEPS", group._STEPS | {SetTags: broken})
    commands = (creation(ff), SetTags(execution_id=known, tags=TAGS), creation(ff))
    first, defect, last = await ff.store.apply_many(commands)
    assert isinstance(defect, InternalError)
    assert defect.text == "SetTags: ZeroDivisionError('oops')"
    assert isinstance(defect.__cause__, ZeroDivisionError)
    assert not isinstance(first, Exception)
    assert not isinstance(last, Exception)
    assert (await ff.show(known)).execution_id == known


async def test_a_step_that_never_has_enough_is_stopped(ff: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    known = await ff.create()
    asked: list[str] = []

    def greedy(space: Workspace, command: SetTags) -> None:
        asked.append(command.execution_id)
        space.get(LANE, f"lane-{len(asked)}")

    monkeypatch.setattr(group, "_STEPS", group._STEPS | {SetTags: greedy})
    with pytest.raises(InternalError, match="SetTags asks for records without end"):
        await ff.store.apply(SetTags(execution_id=known, tags=TAGS))
    assert set(asked) == {known}
    assert (await ff.show(known)).tags == ()
