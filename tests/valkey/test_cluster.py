"""A store on a cluster: what is kept in several partitions, how things are numbered, and which clusters are taken."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from valkey.crc import key_slot

from flowfabric.model import ids
from flowfabric.model.errors import FlowFabricError, PartitionMismatch, StoreUnusable, Unreachable
from flowfabric.model.ids import Partitions
from flowfabric.model.operations.access_secret import RotateSecret
from flowfabric.model.operations.create import Created, CreateExecution, Duplicate
from flowfabric.model.operations.read_list import ListExecutions, ReadFeed
from flowfabric.model.operations.signal import DeliverSignal, SignalAccepted
from flowfabric.model.operations.timer import Purge
from flowfabric.model.state import Public
from flowfabric.storage import open_store
from flowfabric.storage.valkey import ClusterStore, ValkeyStore, keys
from flowfabric.storage.valkey.opening.boot import CLUSTER_MARK, MARK, RIGHTS
from support.clock import ManualClock
from support.driver import Driver, new_uuid
from support.expect import refused
from support.proxy import proxy
from support.tls import Authority
from support.until import until
from support.valkey import ValkeyServer
from support.valkey_cluster import SLOTS, ValkeyCluster, ask, cluster_node
from support.waiting import suspend

pytestmark = pytest.mark.timeout(60)


def store_of(ff: Driver) -> ClusterStore:
    assert isinstance(ff.store, ClusterStore)
    return ff.store


def id_in(partition: int) -> str:
    """An id of a partition."""
    return f"{{fp:{partition}}}:{new_uuid()}"


def away_from(ff: Driver, key: str, count: int = 1) -> list[str]:
    """Ids that live in other partitions than an idempotency key."""
    home = store_of(ff)._layout.home_of_key("default", key)
    found = [f"{{fp:{n}}}:{new_uuid()}" for n in range(count + 1)]
    return [id_ for id_ in found if store_of(ff)._layout.home_of(id_) != home][:count]


async def create(ff: Driver, execution_id: str, **fields: Any) -> Created | Duplicate:
    return await ff.store.apply(CreateExecution(execution_id=execution_id, execution_kind="job", **fields))


# What every partition has a copy of.


async def test_tokens_are_verified_in_every_partition(spread: Driver, cluster: ValkeyCluster) -> None:
    await spread.seed()
    waits = []
    for partition in range(0, 256, 32):
        await create(spread, id_in(partition))
        task = await spread.claim_one()
        waits.append((task.execution_id, await suspend(spread, task)))
    await spread.store.apply(RotateSecret(new_kid="k2", new_secret_hex="cd" * 32, grace_ms=60_000))
    # A process died before it had written all copies.
    store = store_of(spread)
    for partition in (0, 64, 128):
        await store.client.call("DEL", f"ff:{{fp:{partition}}}:{keys.KEYRING}")
    again = await ClusterStore.open(cluster.url, clock=spread.clock)
    for execution_id, wait in waits:
        answer = await again.apply(
            DeliverSignal(
                execution_id=execution_id,
                waitpoint_id=wait.waitpoint.waitpoint_id,
                signal_id=new_uuid(),
                signal_name="go",
                waitpoint_token=wait.waitpoint.waitpoint_token,
            )
        )
        assert isinstance(answer, SignalAccepted)
    await again.close()


# Keys of callers whose ids live elsewhere.


async def test_a_key_in_another_partition_stands_for_one_execution(spread: Driver, other: Driver) -> None:
    first, second = away_from(spread, "k", 2)
    assert await create(spread, first, idempotency_key="k") == Created(first, Public.WAITING)
    assert await create(other, second, idempotency_key="k") == Duplicate(first, Public.WAITING)
    assert await create(spread, first, idempotency_key="k") == Duplicate(first, Public.WAITING)


async def test_a_key_that_stands_for_an_id_elsewhere_is_known_at_its_own_place(spread: Driver) -> None:
    (first,) = away_from(spread, "k")
    await create(spread, first, idempotency_key="k")
    home = store_of(spread)._layout.home_of_key("default", "k")
    beside = id_in(store_of(spread)._layout.homes.index(home))
    assert await create(spread, beside, idempotency_key="k") == Duplicate(first, Public.WAITING)


async def test_many_at_once_create_one(spread: Driver, other: Driver) -> None:
    wanted = away_from(spread, "k", 8)
    answers = await asyncio.gather(
        *(create((spread, other)[n % 2], id_, idempotency_key="k") for n, id_ in enumerate(wanted))
    )
    assert len({answer.execution_id for answer in answers}) == 1
    assert sum(isinstance(answer, Created) for answer in answers) == 1
    page = await spread.store.read(ListExecutions(limit=100))
    assert [run.execution_id for run in page.runs] == [answers[0].execution_id]


async def test_who_dies_after_reserving_a_key_costs_nothing(spread: Driver, other: Driver) -> None:
    first, second, third = away_from(spread, "k", 3)
    layout = store_of(spread)._layout
    call = ("FCALL", "ff_reserve", 1, layout.home_of_key("default", "k"), f"{spread.now}/0/256")
    await store_of(spread).client.functions([(*call, "default", "k", first, "5000", "0")])
    assert await create(other, second, idempotency_key="k") == Created(first, Public.WAITING)
    assert await create(spread, third, idempotency_key="k") == Duplicate(first, Public.WAITING)
    spread.clock.advance(5_000)
    assert await create(spread, third, idempotency_key="k") == Created(third, Public.WAITING)


async def test_a_key_stands_for_what_was_purged(spread: Driver) -> None:
    first, second = away_from(spread, "k", 2)
    await create(spread, first, idempotency_key="k", policy=b'{"stream_policy":{"retention_ttl_ms":1000}}')
    task = await spread.claim_one()
    await spread.complete(task)
    spread.clock.advance(2_000)
    await spread.store.apply(Purge(execution_id=first))
    assert await create(spread, second, idempotency_key="k") == Duplicate(first, "")


async def test_a_refusal_gives_the_key_back(spread: Driver) -> None:
    first, second = away_from(spread, "k", 2)
    with refused("flow_not_found"):
        await create(spread, first, idempotency_key="k", flow_id=new_uuid())
    assert await create(spread, second, idempotency_key="k") == Created(second, Public.WAITING)


# Numbers.


async def positions(ff: Driver) -> list[tuple[int, str]]:
    page = await ff.store.read(ReadFeed(limit=1000))
    return [(line.position, line.execution_id) for line in page.entries]


def clock_number() -> int:
    return time.time_ns() // 1_000 * 4


async def test_a_partition_that_is_ahead_leaves_no_gap(spread: Driver) -> None:
    """Its lines are shown when every clock has come so far: whatever is written until then stands before them."""
    ahead, behind = id_in(5), id_in(6)
    await store_of(spread).client.call("SET", f"ff:{{fp:5}}:{keys.TICK}", clock_number() + 600_000_000)
    await create(spread, ahead)
    store_of(spread)._number = 0  # as another process would, that has seen nothing of it
    await create(spread, behind)
    page = await spread.store.read(ReadFeed(limit=100))
    assert [line.execution_id for line in page.entries] == [behind]
    assert page.last < clock_number()


async def test_lines_come_when_the_clocks_have_come_so_far(spread: Driver) -> None:
    made = [id_in(5), id_in(6), id_in(5)]
    await store_of(spread).client.call("SET", f"ff:{{fp:5}}:{keys.TICK}", clock_number() + 200_000)  # 50 ms
    for execution_id in made:
        await create(spread, execution_id)
    found = await positions(spread)
    assert [execution_id for _, execution_id in found] == made  # what one process does stands in its order
    assert sorted(found) == found


async def test_numbers_never_go_back(spread: Driver) -> None:
    """Neither when a partition's last number is lost, nor behind what the caller has seen from another server."""
    await create(spread, id_in(7))
    await store_of(spread).client.call("DEL", f"ff:{{fp:7}}:{keys.TICK}")
    await create(spread, id_in(7))
    store_of(spread)._number = clock_number() + 100_000
    last = await create(spread, id_in(8))
    found = await positions(spread)
    assert sorted(found) == found
    assert found[-1][1] == last.execution_id
    assert len({number % 256 for number, _ in found}) == 2  # what is left of a number names its partition


# Which clusters are taken.


async def test_the_url_opens_a_store_with_a_secret(cluster: ValkeyCluster) -> None:
    store = await open_store(cluster.url)
    assert isinstance(store, ClusterStore)
    await store.close()


async def test_any_server_of_it_will_do(spread: Driver, cluster: ValkeyCluster) -> None:
    await spread.create()
    hosts = ("127.0.0.1:1", f"127.0.0.1:{cluster.servers[2].port}")
    store = await ClusterStore.open(f"valkey+cluster://{','.join(hosts)}", clock=spread.clock)
    assert len(await Driver(store, spread.clock).claim()) == 1
    await store.close()


async def test_a_single_server_is_no_cluster(server: ValkeyServer) -> None:
    with pytest.raises(
        StoreUnusable, match=rf"is not part of a cluster; open it with valkey://127.0.0.1:{server.port}"
    ):
        await open_store(f"valkey+cluster://127.0.0.1:{server.port}")


async def test_a_part_of_a_cluster_is_no_single_server(cluster: ValkeyCluster) -> None:
    with pytest.raises(StoreUnusable, match=r"is part of a cluster; open it with valkey\+cluster://"):
        await ValkeyStore.open(cluster.servers[0].url)


async def test_slots_that_nobody_holds() -> None:
    server = cluster_node()
    try:
        ask(server, "CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 2)
        with pytest.raises(Unreachable, match="no server holds some of the slots"):
            await open_store(f"valkey+cluster://127.0.0.1:{server.port}")
    finally:
        server.stop()


async def test_nobody_is_there() -> None:
    with pytest.raises(Unreachable):
        await open_store("valkey+cluster://127.0.0.1:1,127.0.0.1:2")


@pytest.mark.parametrize("url", ["valkey+cluster:///0", "valkey+cluster://127.0.0.1:1/3"])
async def test_addresses_that_cannot_be_meant(url: str) -> None:
    with refused("invalid_input"):
        await open_store(url)


async def test_data_of_a_single_server_are_not_taken_for_nothing(cluster: ValkeyCluster) -> None:
    (await ClusterStore.open(cluster.url)).client.close()
    ask(cluster.holder(key_slot(MARK.encode())), "HSET", MARK, "marker", "flowfabric-python")
    with pytest.raises(StoreUnusable, match="were written by a store on a single server"):
        await ClusterStore.open(cluster.url)


async def test_data_of_a_cluster_are_not_taken_for_nothing(server: ValkeyServer) -> None:
    ask(server, "HSET", CLUSTER_MARK, "marker", "flowfabric-python")
    with pytest.raises(StoreUnusable, match="were written by a store on a cluster"):
        await ValkeyStore.open(server.url)


async def test_the_rights_of_the_guide_are_enough(cluster: ValkeyCluster) -> None:
    for server in cluster.servers:
        ask(server, "ACL", "SETUSER", "ff", "on", ">secret", *RIGHTS.split())
    hosts = cluster.url.partition("://")[2]
    store = await ClusterStore.open(f"valkey+cluster://ff:secret@{hosts}")
    ff = Driver(store, ManualClock())
    await ff.seed()
    for _ in range(3):
        await ff.create()
    assert len(await ff.claim(max_tasks=2)) == 2
    assert len((await store.read(ReadFeed())).entries) == 5
    assert (await store.repair()).wrong == ()
    await store.close()
    with pytest.raises(StoreUnusable, match="refuses the user or the password"):
        await ClusterStore.open(f"valkey+cluster://ff:wrong@{hosts}")
    for server in cluster.servers:
        ask(server, "ACL", "DELUSER", "ff")


async def test_partition_counts_are_fixed(spread: Driver, cluster: ValkeyCluster) -> None:
    with pytest.raises(PartitionMismatch):
        await ClusterStore.open(cluster.url, partitions=Partitions(flow=8))


async def test_a_closed_store_says_so(spread: Driver) -> None:
    await spread.store.close()
    with refused("store_closed"):
        await spread.create()


async def test_a_cluster_behind_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with proxy(0, authority.server("localhost")) as between:
        server = cluster_node(
            "--cluster-announce-port",
            str(between.port),
            "--cluster-announce-hostname",
            "localhost",
            "--cluster-preferred-endpoint-type",
            "hostname",
        )
        try:
            between.target = server.port
            ask(server, "CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1)
            await until(lambda: b"cluster_state:ok" in ask(server, "CLUSTER", "INFO"))
            store = await open_store(
                f"valkeys+cluster://localhost:{between.port}?ssl_ca_certs={authority.file}"
            )
            execution_id = ids.spread(new_uuid(), store.partitions)
            await store.apply(CreateExecution(execution_id=execution_id, execution_kind="job"))
            (run,) = (await store.read(ListExecutions())).runs
            assert run.execution_id == execution_id
            await store.close()
            with pytest.raises(FlowFabricError):
                await open_store(f"valkey+cluster://localhost:{between.port}")
        finally:
            server.stop()
