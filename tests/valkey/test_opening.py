"""Opening a store: which servers and which data are taken, and that a lost library or connection is no matter."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from flowfabric.model.errors import (
    PartitionMismatch,
    SchemaTooNew,
    StoreClosed,
    StoreUnusable,
    Unreachable,
)
from flowfabric.model.ids import Partitions
from flowfabric.model.operations.access_secret import ListKids
from flowfabric.storage import open_store
from flowfabric.storage.valkey import ValkeyStore, keys
from flowfabric.storage.valkey.opening.boot import FORMAT, REFERENCE
from support.clock import ManualClock
from support.driver import Driver
from support.expect import refused
from support.valkey import ValkeyServer


def client_of(ff: Driver) -> ValkeyStore:
    assert isinstance(ff.store, ValkeyStore)
    return ff.store


async def test_the_url_opens_a_store_with_a_secret(server: ValkeyServer) -> None:
    store = await open_store(server.url)
    assert (await store.read(ListKids())).current_kid == "k1"
    assert abs(store.now() - ManualClock().now) > 0
    await store.close()


async def test_partition_counts_are_fixed(ff: Driver, server: ValkeyServer) -> None:
    with pytest.raises(PartitionMismatch) as caught:
        await ValkeyStore.open(server.url, partitions=Partitions(flow=8))
    assert caught.value.details == ("256", "8")


async def test_data_of_the_reference_is_refused(ff: Driver, server: ValkeyServer) -> None:
    client = client_of(ff).client
    await client.call("DEL", keys.SINGLE + keys.STORE)
    await client.call("SET", REFERENCE, "x")
    with pytest.raises(StoreUnusable, match="another FlowFabric"):
        await ValkeyStore.open(server.url)


async def test_newer_data_is_refused(ff: Driver, server: ValkeyServer) -> None:
    await client_of(ff).client.call("HSET", keys.SINGLE + keys.STORE, "format", str(FORMAT + 1))
    with pytest.raises(SchemaTooNew):
        await ValkeyStore.open(server.url)


async def test_data_that_is_too_old_is_refused(ff: Driver, server: ValkeyServer) -> None:
    await client_of(ff).client.call("HSET", keys.SINGLE + keys.STORE, "format", str(FORMAT - 1))
    with pytest.raises(StoreUnusable, match="use an empty database"):
        await ValkeyStore.open(server.url)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("return {99, 'x'}", SchemaTooNew),
        ("return 'v1'", StoreUnusable),
    ],
)
async def test_a_library_that_is_newer_or_not_ours_stays(
    ff: Driver, server: ValkeyServer, code: str, error: type[Exception]
) -> None:
    client = client_of(ff).client
    other = (
        "#!lua name=flowfabric\nredis.register_function{function_name = 'ff_version', flags = {'no-writes'}, "
        f"callback = function() {code} end}}"
    )
    await client.call("FUNCTION", "LOAD", "REPLACE", other)
    try:
        with pytest.raises(error):
            await ValkeyStore.open(server.url)
        (refusal,) = await client.functions([("FCALL", "ff_nothing", 0)])
        assert isinstance(refusal, error)
        assert (await client.call("FCALL_RO", "ff_version", 0)) in ([99, b"x"], b"v1")
    finally:
        await client.call("FUNCTION", "FLUSH")


async def test_a_library_that_is_gone_is_loaded_by_whoever_needs_it(ff: Driver) -> None:
    await client_of(ff).client.call("FUNCTION", "FLUSH")
    made = await asyncio.gather(*(ff.create() for _ in range(5)))
    assert len(await ff.claim(max_tasks=9)) == len(made)


async def test_a_cut_connection_is_made_again(ff: Driver) -> None:
    execution_id = await ff.create()
    await client_of(ff).client.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no")
    with contextlib.suppress(Unreachable):  # whoever is first to find out
        await ff.show(execution_id)
    assert len(await ff.claim()) == 1


async def test_listeners_are_woken_when_the_connection_was_lost(ff: Driver) -> None:
    async with ff.store.subscribe(["lane:default"]) as woken:
        await client_of(ff).client.call("CLIENT", "KILL", "TYPE", "pubsub")
        assert await woken.wait(5)
        await ff.create()
        assert await woken.wait(5)


async def test_nobody_is_there() -> None:
    with pytest.raises(Unreachable):
        await ValkeyStore.open("valkey://127.0.0.1:1/0")


async def test_a_closed_store_says_so(ff: Driver) -> None:
    await ff.store.close()
    with refused("store_closed"):
        await ff.create()
    with pytest.raises(StoreClosed):
        async with ff.store.subscribe(["feed"]):
            pass


@pytest.mark.parametrize("batch", [1, 32])
async def test_a_claim_is_one_round_trip(ff: Driver, batch: int) -> None:
    for _ in range(batch):
        await ff.create()
    client = client_of(ff).client
    before = client.writes
    assert len(await ff.claim(max_tasks=batch)) == batch
    assert client.writes == before + 1


@pytest.mark.parametrize(("calls", "writes"), [(7, 1), (20, 2)])
async def test_what_is_asked_together_leaves_together(ff: Driver, calls: int, writes: int) -> None:
    """The first eight need not wait for the others when the server has nothing to do."""
    client = client_of(ff).client
    before = client.writes
    await asyncio.gather(*(ff.create() for _ in range(calls)))
    assert client.writes == before + writes
