"""Stores side by side: one clock, the same chances."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from flowfabric.storage.base import Upkeep
from flowfabric.storage.memory import MemoryStore
from flowfabric.storage.sqlite import SqliteStore
from flowfabric.storage.sqlite.connection import MEMORY
from flowfabric.storage.valkey import ClusterStore
from support.clock import ManualClock
from support.simulation.numbers import Renaming
from support.stores import GENERAL, STORES


class Lot:
    """The chances of one store: the n-th draw of an action is the same on every store, whatever was drawn before."""

    def __init__(self) -> None:
        self._source = random.Random(0)

    def begin(self, lot: int) -> None:
        self._source.seed(lot)

    def __call__(self) -> float:
        return self._source.random()


class Fleet:
    """Some stores, the first of which is the one that the others are compared with."""

    def __init__(self, names: Sequence[str], stores: Sequence[Upkeep], clock: ManualClock) -> None:
        self.names = tuple(names)
        self.stores = list(stores)
        self.clock = clock
        self.lots: list[Lot] = []
        first = self.stores[0]
        self.renamings = [
            Renaming(first, store)
            if isinstance(store, ClusterStore) and isinstance(first, MemoryStore)
            else None
            for store in self.stores
        ]
        """How the numbers of a store are to be read where they have gaps."""

    def begin(self, lot: int) -> None:
        """Let every store draw the same chances from here on."""
        for each in self.lots:
            each.begin(lot)

    async def restart(self) -> None:
        """Close every store that lives in a file, and open it again: nothing may depend on what a process remembers."""
        for place, store in enumerate(self.stores):
            if isinstance(store, SqliteStore) and store._path != MEMORY:
                await store.close()
                lot = self.lots[place]
                self.stores[place] = await SqliteStore.open(store._path, clock=self.clock, chance=lot)


@asynccontextmanager
async def open_fleet(names: Sequence[str], folder: Path) -> AsyncIterator[Fleet]:
    """Open fresh stores, each in a folder of its own."""
    clock = ManualClock()
    lots = [Lot() for _ in names]
    async with AsyncExitStack() as stack:
        stores = []
        for name, lot in zip(names, lots, strict=True):
            home = folder / name
            home.mkdir(parents=True)
            stores.append(await stack.enter_async_context((STORES | GENERAL)[name](home, clock, lot)))
        fleet = Fleet(names, stores, clock)
        fleet.lots = lots
        try:
            yield fleet
        finally:
            for store in fleet.stores:
                await store.close()
