"""Every store that the suites run on. A store that joins the project joins this table, and nothing else changes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

from flowfabric.storage.base import Upkeep
from flowfabric.storage.memory import MemoryStore
from flowfabric.storage.sqlite import SqliteStore
from support.clock import ManualClock
from support.valkey import valkey
from support.valkey_cluster import valkey_cluster

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
    "valkey": valkey,
    "valkey-cluster": valkey_cluster,
}

GENERAL: dict[str, Callable[[Path, ManualClock, Chance], AbstractAsyncContextManager[Upkeep]]] = {
    "valkey-general": partial(valkey, fast_paths=False),
    "valkey-cluster-general": partial(valkey_cluster, fast_paths=False),
}
"""The same stores without their fast paths: they must decide the same."""

CHOSEN = tuple(name for name in os.environ.get("FF_TEST_STORES", "").split(",") if name)
"""`FF_TEST_STORES=valkey pytest …` runs any suite on the named stores only."""


def chosen(sides: Iterable[str]) -> list[str]:
    """Name the stores that a suite runs on: those that were asked for, else all."""
    return sorted(name for name in sides if name in CHOSEN or not CHOSEN)
