"""No memory is left: nothing is half written, and what frees memory goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from flowfabric.engine.timers import Timers
from flowfabric.model.errors import StoreFull
from flowfabric.model.operations.access_secret import RotateSecret
from flowfabric.storage.valkey import ValkeyStore
from support.clock import ManualClock
from support.driver import LEASE, SECRET, Driver
from support.stores import half
from support.valkey import ValkeyServer
from support.valkey_nodes import ask, node, nodes

DAY = 86_400_000


@pytest.fixture(params=[True, False], ids=["fast", "general"])
async def small(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Driver, ValkeyServer]]:
    """A store of its own, on a server that can be made full."""
    with nodes() as stack:
        server = node(stack)
        clock = ManualClock()
        store = await ValkeyStore.open(server.url, clock=clock, chance=half, fast_paths=request.param)
        yield Driver(store, clock), server
        await store.close()


def fill(server: ValkeyServer, limit: int = 1) -> None:
    """Leave no memory, or (0) all there is."""
    ask(server, "CONFIG", "SET", "maxmemory", limit)


async def test_nothing_is_written(small: tuple[Driver, ValkeyServer]) -> None:
    ff, server = small
    task = await ff.running()
    before = await ff.store.dump()
    fill(server)
    with pytest.raises(StoreFull, match=r"maxmemory.*nothing was written"):
        await ff.create()
    with pytest.raises(StoreFull):
        await ff.complete(task, b"result")
    assert await ff.store.dump() == before
    fill(server, 0)
    await ff.complete(task, b"result")


async def test_a_timer_that_finds_no_memory_is_fired_as_soon_as_there_is_some(
    small: tuple[Driver, ValkeyServer],
) -> None:
    """It is the store's failure: the execution is not left alone as one whose step keeps failing."""
    ff, server = small
    task = await ff.running()
    ff.clock.advance(LEASE + 1)
    timers = Timers(ff.store)
    fill(server)
    with pytest.raises(StoreFull):
        await timers.fire_due()
    fill(server, 0)
    assert await timers.fire_due() == 1
    assert (await ff.events(task.execution_id))[-1] == "lease_expired"


async def test_what_frees_memory_goes_on(small: tuple[Driver, ValkeyServer]) -> None:
    ff, server = small
    task = await ff.running(policy={"stream_policy": {"retention_ttl_ms": 1_000}}, idempotency_key="k")
    await ff.complete(task, b"result")
    fill(server)
    ff.clock.advance(1_001)
    assert await ff.store.acquire_leader_lease("b", "me", 1_000)
    assert await Timers(ff.store).fire_due() == 1
    assert (await ff.store.dump()).records.get("execution") is None
    ff.clock.advance(2 * DAY)
    assert await ff.store.collect() >= 2  # the key, and what the feed still told
    await ff.store.release_leader_lease("b", "me")


async def test_a_refused_secret_stands_in_no_error(small: tuple[Driver, ValkeyServer]) -> None:
    ff, server = small
    await ff.seed()
    fill(server)
    with pytest.raises(StoreFull) as caught:
        await ff.store.apply(RotateSecret(new_kid="k2", new_secret_hex="5ec7e7" * 10, grace_ms=0))
    assert "5ec7e7" not in repr(caught.value)
    assert SECRET not in repr(caught.value)
