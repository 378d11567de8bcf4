"""What the engine does beside the timers, and how it bears a store that fails."""

from __future__ import annotations

import asyncio
import logging

import pytest

from flowfabric.engine import Engine, Timers, timers
from flowfabric.model.errors import FlowFabricError, StoreBusy, StoreClosed
from flowfabric.storage.base import RepairReport
from flowfabric.storage.memory import MemoryStore
from support.clock import ManualClock


class Unwell(MemoryStore):
    """A store that answers as a test says."""

    def __init__(self, *answers: int | FlowFabricError) -> None:
        super().__init__(clock=ManualClock())
        self.answers = list(answers)
        self.asked: list[str] = []

    def _next(self, call: str) -> int:
        self.asked.append(call)
        answer = self.answers.pop(0)
        if isinstance(answer, FlowFabricError):
            raise answer
        return answer

    async def collect(self, limit: int = 1000) -> int:
        return self._next(f"collect {limit}")

    async def repair(self, *, fix: bool = True) -> RepairReport:
        self._next(f"repair {fix}")
        return RepairReport(1, ("an entry is missing",), fix)


class Unsteady(Unwell):
    """A store whose leader lease comes and goes."""

    async def acquire_leader_lease(self, name: str, holder: str, ttl_ms: int) -> bool:
        return bool(self._next(name))


async def end_of(engine: Engine, name: str) -> None:
    """Wait until a part of the engine has ended by itself."""
    (task,) = (task for task in engine._tasks if task.get_name() == f"flowfabric-{name}")
    await asyncio.wait_for(asyncio.shield(task), 30)


async def test_collecting_goes_on_while_pages_are_full(caplog: pytest.LogCaptureFixture) -> None:
    store = Unwell(1_000, 1_000, 3, StoreBusy(), 0, StoreClosed())
    with caplog.at_level(logging.WARNING):
        async with Engine(store, collect_seconds=0) as engine:
            await end_of(engine, "collect")
    assert store.asked == ["collect 1000"] * 6
    assert caplog.messages == [f"housekeeping pauses: {StoreBusy()}"]


async def test_what_repair_mends_is_told(caplog: pytest.LogCaptureFixture) -> None:
    store = Unwell(0, StoreClosed())
    with caplog.at_level(logging.WARNING):
        async with Engine(store, repair_seconds=0) as engine:
            await end_of(engine, "repair")
    assert store.asked == ["repair True"] * 2
    assert caplog.messages == ["repaired: an entry is missing"]


async def test_timers_try_a_failing_store_again_and_leave_a_closed_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(timers, "SWEEP_SECONDS", 0.0)
    store = Unsteady(0, StoreBusy(), 0, StoreClosed())
    with caplog.at_level(logging.WARNING):
        await Timers(store).run()
    assert store.asked == ["timers"] * 4
    assert caplog.messages == [f"timers pause: {StoreBusy()}"]


async def test_one_of_several_processes_repairs() -> None:
    one = Unwell(0, StoreClosed())
    others = [Engine(one, repair_seconds=3_600) for _ in range(2)]
    for engine in others:
        await engine._repair()
    assert one.asked == ["repair True"]
