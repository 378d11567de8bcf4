"""A replica takes over under load: behind one address, by plan, and after the death of the primary."""

from __future__ import annotations

import pytest

from flowfabric.model.errors import Unreachable
from flowfabric.storage.valkey import ValkeyStore
from support.chaos.load import sound, under_load
from support.clock import ManualClock
from support.driver import Driver
from support.proxy import proxy
from support.until import until
from support.valkey import ValkeyServer
from support.valkey_nodes import ask, following, info, node, nodes, replica

pytestmark = pytest.mark.timeout(120)


def promote(server: ValkeyServer, others: list[ValkeyServer]) -> None:
    """Make a replica the primary that the others follow."""
    ask(server, "REPLICAOF", "NO", "ONE")
    for other in others:
        ask(other, "REPLICAOF", "127.0.0.1", server.port)


def progress(server: ValkeyServer) -> int:
    """How much of its primary's writing a replica has."""
    return int(info(server, "replication")["slave_repl_offset"])


async def demoted(server: ValkeyServer) -> None:
    """Wait until a primary has become a replica."""
    await until(lambda: info(server, "replication")["role"] == "slave")


@pytest.mark.parametrize("fast_paths", [True, False])
async def test_with_confirmed_answers_the_death_of_the_primary_loses_nothing(fast_paths: bool) -> None:
    """Of two replicas one must confirm: the one that has more goes on, as a sentinel would choose.

    For a while there are two primaries, as when a network breaks: what the old one takes then is not acknowledged.
    """
    with nodes() as stack:
        primary = node(stack)
        followers = [await replica(stack, primary), await replica(stack, primary, count=2)]
        async with proxy(primary.port) as address:
            url = f"valkey://127.0.0.1:{address.port}/0"
            async with under_load(url, wait=1, fast_paths=fast_paths) as load:
                await load.more(300)
                chosen, other = sorted(followers, key=progress, reverse=True)
                ask(
                    other, "REPLICAOF", "NO", "ONE"
                )  # it confirms nothing more that the other one may not have
                sent = int(info(primary, "replication")["master_repl_offset"])
                await until(lambda: progress(chosen) >= sent)
                promote(chosen, [other])
                await load.met("unreplicated")
                primary.kill()
                address.target = chosen.port
                await load.more(300)
                facts = await load.settle()
            await sound(url, facts)


async def test_without_them_what_is_left_is_consistent() -> None:
    with nodes() as stack:
        primary = node(stack)
        follower = await replica(stack, primary)
        async with proxy(primary.port) as address:
            url = f"valkey://127.0.0.1:{address.port}/0"
            async with under_load(url, lossy=True) as load:
                await load.more(300)
                promote(follower, [])
                await load.more(50)
                primary.kill()
                address.target = follower.port
                await load.more(300)
                facts = await load.settle()
            checker = await sound(url, [])
            with pytest.raises(AssertionError, match="acknowledged, but not there"):
                checker.check(facts)


@pytest.mark.parametrize("fast_paths", [True, False])
async def test_a_planned_change_loses_nothing_and_leaves_nobody_behind(fast_paths: bool) -> None:
    """Connections to the old primary stay open: that it refuses to write sends clients to the address again."""
    with nodes() as stack:
        first = node(stack)
        second = await replica(stack, first)
        async with proxy(first.port) as address:
            url = f"valkey://127.0.0.1:{address.port}/0"
            async with under_load(url, fast_paths=fast_paths) as load:
                for old, new in ((first, second), (second, first)):
                    await load.more(200)
                    ask(old, "FAILOVER", "TO", "127.0.0.1", new.port, "TIMEOUT", 10_000)
                    await demoted(old)
                    address.target = new.port
                    await load.more(200)
                    await following(new)
                facts = await load.settle()
            await sound(url, facts)


async def test_a_replica_is_asked_once_and_left() -> None:
    with nodes() as stack:
        first, second = node(stack), node(stack)
        async with proxy(first.port) as address:
            store = await ValkeyStore.open(f"valkey://127.0.0.1:{address.port}/0")
            ff = Driver(store, ManualClock())
            await ff.create()
            ask(second, "REPLICAOF", "127.0.0.1", first.port)
            await following(first)
            promote(second, [first])
            await following(second)
            async with store.subscribe(["lane:default"]) as woken:
                ask(first, "CONFIG", "RESETSTAT")
                with pytest.raises(Unreachable, match="this server is a replica"):
                    await ff.create()
                assert info(first, "commandstats")["cmdstat_fcall"]["rejected_calls"] == 1
                assert await woken.wait(5)  # the connection that listens is another one now
                with pytest.raises(Unreachable, match="this server is a replica"):
                    await ff.create()  # the address still leads there
                address.target = second.port
                await ff.create()
                assert len(await ff.claim(max_tasks=9)) == 2
            await store.close()


async def test_whoever_only_asks_is_answered_by_a_replica() -> None:
    with nodes() as stack:
        first = node(stack)
        second = await replica(stack, first)
        store = await ValkeyStore.open(first.url)
        ff = Driver(store, ManualClock())
        made = await ff.create()
        await following(first)
        promote(second, [first])
        await following(second)
        assert await ff.events(made) == ["created"]
        await store.close()
