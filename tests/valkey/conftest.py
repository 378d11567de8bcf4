"""A real server, emptied, for every test of the store on Valkey."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from flowfabric.storage.valkey import ValkeyStore
from support.clock import ManualClock
from support.driver import Driver
from support.stores import half
from support.valkey import ValkeyServer, empty_server


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
