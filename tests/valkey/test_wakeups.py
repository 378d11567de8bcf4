"""Listening: one connection for all, made again when it is lost, with a limit for every wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from flowfabric.engine import waiting
from flowfabric.engine.waiting import claim_when_ready
from flowfabric.model.errors import StoreClosed, StoreUnusable, Unreachable
from flowfabric.model.operations.claim import Claim, Claimed
from flowfabric.storage.valkey import ValkeyStore
from flowfabric.storage.valkey.connection import wakeups, wire
from support.clock import ManualClock
from support.driver import Driver, new_uuid
from support.until import listening, until
from support.valkey import ValkeyServer
from support.valkey_nodes import ask, info, node, nodes, pause, resume

TOPIC = "lane:default"


@pytest.fixture
async def alone() -> AsyncIterator[ValkeyServer]:
    """A server of this test's own, which may be stopped."""
    with nodes() as stack:
        yield node(stack)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a test can wait for."""
    monkeypatch.setattr(wire, "CONNECT_SECONDS", 0.3)
    monkeypatch.setattr(wakeups, "CONNECT_SECONDS", 0.3)
    monkeypatch.setattr(wakeups, "BEAT_SECONDS", 0.3)


@pytest.fixture
def unaided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks for work unless woken."""
    monkeypatch.setattr(waiting, "LOOK_SECONDS", 3_600)


def waiting_claim(ff: Driver) -> asyncio.Task[Claimed]:
    claim = Claim(worker_id="w", worker_instance_id="w", lanes=("default",), mint=new_uuid())
    return asyncio.create_task(claim_when_ready(ff.store, claim, 30_000))


def ears(server: ValkeyServer) -> int:
    return int(info(server, "clients")["pubsub_clients"])


@pytest.mark.usefixtures("unaided")
async def test_work_that_comes_while_nobody_listens_is_found(ff: Driver, server: ValkeyServer) -> None:
    """The new connection is confirmed before anybody is woken, so what came in between is looked for."""
    for _ in range(8):
        claiming = waiting_claim(ff)
        await listening(ff.store, TOPIC)
        await until(lambda: ears(server) == 1)
        made, _ = await asyncio.gather(
            ff.create(), asyncio.to_thread(ask, server, "CLIENT", "KILL", "TYPE", "pubsub")
        )
        (task,) = (await claiming).tasks
        assert task.execution_id == made
        await ff.complete(task)


@pytest.mark.usefixtures("unaided")
async def test_a_waiting_claim_outlives_a_restart(alone: ValkeyServer) -> None:
    store = await ValkeyStore.open(alone.url)
    ff = Driver(store, ManualClock())
    claiming = waiting_claim(ff)
    await until(lambda: ears(alone) == 1)
    await store.acquire_leader_lease("b", "me", 1)  # goes the way of the claim, after it
    alone.kill()
    await asyncio.to_thread(alone.start)
    await until(lambda: ears(alone) == 1)
    made = await ff.create()
    assert [task.execution_id for task in (await claiming).tasks] == [made]
    await store.close()


async def test_all_who_listen_share_one_connection(alone: ValkeyServer) -> None:
    store = await ValkeyStore.open(alone.url)
    async with AsyncExitStack() as stack:
        topics = [[f"lane:{number % 3}", "feed"] for number in range(20)]
        await asyncio.gather(*(stack.enter_async_context(store.subscribe(wanted)) for wanted in topics))
        assert ears(alone) == 1
        assert ask(alone, "PUBSUB", "NUMSUB", "ff:wake:lane:1", "ff:wake:feed")[1::2] == [1, 1]
    await until(lambda: not ask(alone, "PUBSUB", "CHANNELS"))
    await store.close()
    await until(lambda: ears(alone) == 0)


@pytest.mark.usefixtures("quick")
async def test_a_server_that_stands_still_is_not_waited_for_without_end(alone: ValkeyServer) -> None:
    store = await ValkeyStore.open(alone.url, timeout=0.3)
    await store.acquire_leader_lease("b", "me", 1)
    pause(alone)
    for _ in range(2):  # at first nobody has listened yet, then somebody tried
        with pytest.raises(Unreachable):
            async with store.subscribe([TOPIC]):
                pytest.fail("nobody confirmed")
    with pytest.raises(Unreachable, match=r"no answer for 0\.3 s; what was asked may have been done"):
        await store.acquire_leader_lease("b", "me", 1)
    with pytest.raises(Unreachable, match="cannot be reached"):
        await store.acquire_leader_lease("b", "me", 1)  # connects anew
    with pytest.raises(Unreachable):
        await ValkeyStore.open(alone.url)
    resume(alone)
    async with store.subscribe([TOPIC]) as woken:
        await Driver(store, ManualClock()).create()
        assert await woken.wait(10)
    await store.close()


async def test_a_connection_that_was_lost_a_moment_ago_is_not_asked(ff: Driver) -> None:
    """Not even before anybody had time to make a new one."""
    assert isinstance(ff.store, ValkeyStore)
    async with ff.store.subscribe([TOPIC]) as woken:
        assert ff.store._wakeups._ear is not None
        ff.store._wakeups._ear.abort("it is lost")
        async with ff.store.subscribe(["feed"]) as other:
            assert await woken.wait(10)
            await ff.create()
            assert await other.wait(10)


@pytest.mark.usefixtures("quick")
async def test_a_silent_connection_is_given_up(alone: ValkeyServer) -> None:
    store = await ValkeyStore.open(alone.url, timeout=0.3)
    async with store.subscribe([TOPIC]) as woken:
        pause(alone)
        ear = store._wakeups._ear
        assert ear is not None
        await until(lambda: not ear.alive)
        with pytest.raises(Unreachable):
            async with store.subscribe(["feed"]):
                pytest.fail("nobody confirmed")
        resume(alone)
        assert await woken.wait(10)
    await store.close()


async def test_who_may_not_listen_is_told(alone: ValkeyServer) -> None:
    store = await ValkeyStore.open(alone.url)
    ask(alone, "ACL", "SETUSER", "default", "resetchannels")
    with pytest.raises(StoreUnusable, match="NOPERM"):
        async with store.subscribe([TOPIC]):
            pytest.fail("it may not")
    ask(alone, "ACL", "SETUSER", "default", "allchannels")
    async with store.subscribe([TOPIC]):
        await store.close()


async def test_whoever_waits_for_a_confirmation_is_told_of_the_end(alone: ValkeyServer) -> None:
    store = await ValkeyStore.open(alone.url)
    pause(alone)

    async def listen() -> None:
        async with store.subscribe([TOPIC]):
            pytest.fail("nobody confirmed")

    task = asyncio.create_task(listen())
    await until(lambda: store._wakeups._ready is not None)
    await store.close()
    with pytest.raises(StoreClosed):
        await task
