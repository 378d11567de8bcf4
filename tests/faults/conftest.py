"""A store in memory to let fail."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from flowfabric.storage.sqlite import SqliteStore
from support.clock import ManualClock
from support.simulation.fleet import Fleet, Lot


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    """One SQLite store, driven like in a simulation."""
    clock, lot = ManualClock(), Lot()
    store = await SqliteStore.open(":memory:", clock=clock, chance=lot)
    fleet = Fleet(("sqlite-memory",), (store,), clock)
    fleet.lots = [lot]
    yield fleet
    await store.close()
