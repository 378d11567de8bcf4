"""A store in memory whose statements can fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

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


class Trap:
    """Fails at the n-th statement, or from there on; counts them all."""

    def __init__(self, store: SqliteStore, fault: Callable[[], Exception]) -> None:
        self._session = store._writer.session
        self._fault = fault
        self.names: list[str] = []
        self.sprung = False

    def arm(self, place: int, *, once: bool = True) -> None:
        """Fail at a place, counted from 0."""
        self.names = []
        self.sprung = False

        def before(name: str) -> None:
            if name == "rollback":  # the end of a read, which a dump is
                return
            here = len(self.names)
            self.names.append(name)
            if here == place or (here > place and not once):
                self.sprung = True
                raise self._fault()

        self._session.before = before

    def disarm(self) -> None:
        self._session.before = None
