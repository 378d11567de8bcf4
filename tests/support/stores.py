"""Every store that the suites run on. A store that joins the project joins this table, and nothing else changes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from flowfabric.storage.base import Upkeep
from flowfabric.storage.memory import MemoryStore
from flowfabric.storage.sqlite import SqliteStore
from support.clock import ManualClock

Chance = Callable[[], float]


def half() -> float:
    """The draw of every store in the suites, so that jitter is known: the middle of its range."""
    return 0.5


@asynccontextmanager
async def memory(_folder: Path, clock: ManualClock, chance: Chance = half) -> AsyncIterator[Upkeep]:
    """The bare machine."""
    store = MemoryStore(clock=clock, chance=chance)
    yield store
    await store.close()


@asynccontextmanager
async def sqlite(folder: Path, clock: ManualClock, chance: Chance = half) -> AsyncIterator[Upkeep]:
    """A real file."""
    store = await SqliteStore.open(folder / "flowfabric.db", clock=clock, chance=chance)
    yield store
    await store.close()


@asynccontextmanager
async def sqlite_memory(_folder: Path, clock: ManualClock, chance: Chance = half) -> AsyncIterator[Upkeep]:
    """SQLite without a file."""
    store = await SqliteStore.open(":memory:", clock=clock, chance=chance)
    yield store
    await store.close()


STORES: dict[str, Callable[[Path, ManualClock, Chance], AbstractAsyncContextManager[Upkeep]]] = {
    "memory": memory,
    "sqlite": sqlite,
    "sqlite-memory": sqlite_memory,
}
