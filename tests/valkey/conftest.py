"""A real server, emptied, for every test of the store on Valkey."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from flowfabric.storage.valkey import ClusterStore, ValkeyStore
from support.clock import ManualClock
from support.driver import Driver
from support.stores import half
from support.valkey import ValkeyServer, empty_server
from support.valkey_cluster import ValkeyCluster, shared_cluster


@pytest.fixture
async def server() -> AsyncIterator[ValkeyServer]:
    async with empty_server() as running:
        yield running


@pytest.fixture
async def ff(server: ValkeyServer) -> AsyncIterator[Driver]:
    clock = ManualClock()
    store = await ValkeyStore.open(server.url, clock=clock, chance=half)
    yield Driver(store, clock)
    await store.close()


@pytest.fixture
def cluster() -> ValkeyCluster:
    """A cluster of three with nothing in it."""
    running = shared_cluster()
    running.empty()
    return running


@pytest.fixture
async def spread(cluster: ValkeyCluster) -> AsyncIterator[Driver]:
    """A store on it."""
    clock = ManualClock()
    store = await ClusterStore.open(cluster.url, clock=clock, chance=half)
    yield Driver(store, clock)
    await store.close()


@pytest.fixture
async def other(spread: Driver, cluster: ValkeyCluster) -> AsyncIterator[Driver]:
    """Another process, as it were: a second store on the same cluster."""
    store = await ClusterStore.open(cluster.url, clock=spread.clock, chance=half)
    yield Driver(store, spread.clock)
    await store.close()
