"""What a writer remembers between its groups is forgotten when it may be wrong."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from flowfabric.model.errors import FlowFabricError
from flowfabric.model.operations.finish import Complete
from flowfabric.model.operations.lane import PauseLane, UnpauseLane
from flowfabric.model.operations.lease import Renew, RevokeLease
from flowfabric.storage.sqlite import SqliteStore
from support.clock import ManualClock
from support.driver import Driver


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[tuple[Driver, Driver]]:
    """Two stores on one file, as two processes have them."""
    clock = ManualClock()
    stores = [await SqliteStore.open(tmp_path / "f.db", clock=clock) for _ in range(2)]
    yield Driver(stores[0], clock), Driver(stores[1], clock)
    for store in stores:
        await store.close()


async def test_a_lease_that_somebody_else_revoked_is_not_remembered(pair: tuple[Driver, Driver]) -> None:
    mine, other = pair
    task = await mine.running()
    await mine.store.apply(Renew(execution_id=task.execution_id, fence=task.fence, lease_ttl_ms=30_000))
    await other.store.apply(RevokeLease(execution_id=task.execution_id))
    with pytest.raises(FlowFabricError) as refusal:
        await mine.store.apply(Complete(execution_id=task.execution_id, fence=task.fence))
    assert refusal.value.code == "lease_revoked"
    again = await other.claim_one()
    assert again.fence.lease_epoch == 2
    await other.complete(again)


async def test_lanes_and_queues_of_others_are_seen(pair: tuple[Driver, Driver]) -> None:
    mine, other = pair
    assert await mine.claim() == ()
    await other.create(execution_kind="new kind")
    (task,) = await mine.claim()
    await mine.complete(task)
    await other.store.apply(PauseLane(lane_id="default"))
    await other.create()
    assert await mine.claim() == ()
    await other.store.apply(UnpauseLane(lane_id="default"))
    assert len(await mine.claim()) == 1
    assert await mine.claim() == ()


async def test_what_was_rolled_back_is_forgotten(tmp_path: Path) -> None:
    clock = ManualClock()
    store = await SqliteStore.open(tmp_path / "f.db", clock=clock)
    ff = Driver(store, clock)
    task = await ff.running()
    session = store._writer.session

    def fail(name: str) -> None:
        if name == "commit":
            raise sqlite3.OperationalError("disk trouble")

    session.before = fail
    with pytest.raises(FlowFabricError):
        await store.apply(Complete(execution_id=task.execution_id, fence=task.fence))
    session.before = None
    assert (await ff.show(task.execution_id)).public_state == "active"
    await ff.complete(task)
    assert (await ff.show(task.execution_id)).public_state == "completed"
    assert (await store.repair(fix=False)).wrong == ()
    await store.close()
