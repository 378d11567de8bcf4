"""Faults of a cluster under load: nothing acknowledged is lost, nothing succeeds twice, nothing stays stuck."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from support.chaos.load import sound, under_load
from support.valkey import ValkeyServer
from support.valkey_cluster import ValkeyCluster, ask, await_true
from support.valkey_moves import KeyByKey, move_at_once, slot_of
from support.valkey_nodes import info, pause, resume

pytestmark = pytest.mark.timeout(120)


@contextmanager
def formed(*options: str, replicas: int = 0) -> Iterator[ValkeyCluster]:
    """A cluster for one test."""
    cluster = ValkeyCluster(*options, replicas=replicas)
    try:
        yield cluster
    finally:
        for server in cluster.all:
            resume(server)
        cluster.stop()


def is_primary(server: ValkeyServer) -> bool:
    return bool(info(server, "replication")["role"] == "master")


def swapped(old: ValkeyServer, new: ValkeyServer) -> bool:
    return is_primary(new) and not is_primary(old)


@pytest.mark.parametrize("fast_paths", [True, False])
async def test_the_death_of_a_primary_loses_nothing_when_answers_are_confirmed(fast_paths: bool) -> None:
    with formed(replicas=1) as cluster:
        async with under_load(cluster.url, wait=1, fast_paths=fast_paths) as load:
            await load.more(200)
            cluster.servers[0].kill()
            await asyncio.to_thread(await_true, lambda: is_primary(cluster.replicas[0]))
            # Nothing can be confirmed in its slots before somebody follows the new primary.
            await asyncio.to_thread(cluster.servers[0].start)
            await load.more(300)
            facts = await load.settle()
        await sound(cluster.url, facts)


async def test_without_them_what_is_left_is_consistent() -> None:
    with formed(replicas=1) as cluster:
        async with under_load(cluster.url, lossy=True) as load:
            await load.more(200)
            cluster.servers[1].kill()
            await asyncio.to_thread(await_true, lambda: is_primary(cluster.replicas[1]))
            await load.more(200)
            await load.settle()
        checker = await sound(cluster.url, [])
        assert checker.runs


async def test_a_planned_failover_is_hardly_noticed() -> None:
    with formed(replicas=1) as cluster:
        async with under_load(cluster.url) as load:
            for old, new in zip(cluster.servers[:2], cluster.replicas[:2], strict=True):
                await load.more(100)
                ask(new, "CLUSTER", "FAILOVER")
                await asyncio.to_thread(await_true, partial(swapped, old, new))
                await load.more(100)
            facts = await load.settle()
        await sound(cluster.url, facts)


@pytest.mark.parametrize("fast_paths", [True, False])
async def test_slots_move_as_a_whole_under_load(fast_paths: bool) -> None:
    with formed() as cluster:
        first, second, third = cluster.servers
        async with under_load(cluster.url, fast_paths=fast_paths) as load:
            await load.more(150)
            await move_at_once(cluster, first, second, range(5_000))
            await load.more(150)
            await move_at_once(cluster, third, first, range(12_000, 14_000))
            await load.more(150)
            facts = await load.settle()
        assert not load.troubles
        await sound(cluster.url, facts)


@pytest.mark.parametrize("fast_paths", [True, False])
async def test_while_a_slot_moves_key_by_key_its_functions_wait(fast_paths: bool) -> None:
    with formed() as cluster:
        async with under_load(cluster.url, fast_paths=fast_paths) as load:
            await load.more(600)
            slot = slot_of(7)
            moving = KeyByKey(
                cluster, slot, next(s for s in cluster.servers if s is not cluster.holder(slot))
            )
            moving.begin()
            assert moving.move(5)
            await load.met("store_busy", 1)
            await asyncio.to_thread(moving.move)
            moving.end()
            await load.more(200)
            facts = await load.settle()
        assert set(load.troubles) == {"store_busy"}
        await sound(cluster.url, facts)


async def test_functions_that_are_removed_somewhere_are_loaded_again() -> None:
    with formed() as cluster:
        async with under_load(cluster.url) as load:
            for place in range(9):
                await load.more(30)
                ask(cluster.servers[place % 3], "FUNCTION", "FLUSH")
            facts = await load.settle()
        assert not load.troubles
        await sound(cluster.url, facts)


async def test_a_server_that_stands_still_is_given_up_and_comes_back() -> None:
    with formed() as cluster:
        async with under_load(cluster.url, timeout=0.5) as load:
            await load.more()
            pause(cluster.servers[1])
            await load.met("unreachable", 8)
            resume(cluster.servers[1])
            await load.more()
            facts = await load.settle()
        await sound(cluster.url, facts)


async def test_a_restart_loses_nothing_when_every_write_is_synced() -> None:
    """Functions are not in the log of a server: whoever needs them loads them."""
    with formed("--appendonly", "yes", "--appendfsync", "always") as cluster:
        async with under_load(cluster.url) as load:
            await load.more()
            cluster.servers[2].kill()
            await asyncio.to_thread(cluster.servers[2].start)
            await load.more()
            facts = await load.settle()
        await sound(cluster.url, facts)
