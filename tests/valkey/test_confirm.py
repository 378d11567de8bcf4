"""The strict mode: an answer means that replicas have what it tells of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack

import pytest

from flowfabric.model.errors import StoreFull, Unreachable, Unreplicated
from flowfabric.model.operations.access_secret import SeedSecret
from flowfabric.model.operations.create import CreateExecution
from flowfabric.server.server import Server
from flowfabric.server.settings import load_settings
from flowfabric.storage import open_store
from flowfabric.storage.valkey import ValkeyStore
from support.clock import ManualClock
from support.driver import SECRET, Driver
from support.valkey import ValkeyServer
from support.valkey_nodes import ask, info, node, nodes, pause, replica, resume


class Pair:
    """A primary, its replica, and a store that wants both to know."""

    def __init__(self, stack: ExitStack, primary: ValkeyServer, follower: ValkeyServer) -> None:
        self.stack = stack
        self.primary = primary
        self.follower = follower

    async def store(self, wait: int = 1) -> Driver:
        return Driver(await ValkeyStore.open(self.primary.url, wait=wait), ManualClock())


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    with nodes() as stack:
        primary = node(stack)
        yield Pair(stack, primary, await replica(stack, primary))


async def test_an_answer_comes_after_the_replica_and_costs_no_further_write(pair: Pair) -> None:
    ff = await pair.store()
    assert isinstance(ff.store, ValkeyStore)
    writes, waits = ff.store.client.writes, _waits(pair.primary)
    made = await asyncio.gather(*(ff.create() for _ in range(20)))
    assert ff.store.client.writes == writes + 1
    assert _waits(pair.primary) == waits + 1  # one for all of them
    await ff.store.close()
    pair.primary.kill()
    ask(pair.follower, "REPLICAOF", "NO", "ONE")
    store = await open_store(pair.follower.url)
    assert {task.execution_id for task in await Driver(store, ManualClock()).claim(max_tasks=50)} == {*made}
    await store.close()


def _waits(server: ValkeyServer) -> int:
    return int(info(server, "commandstats").get("cmdstat_wait", {"calls": 0})["calls"])


async def test_what_a_replica_does_not_confirm_is_in_doubt_until_it_does(pair: Pair) -> None:
    ff = await pair.store()
    command = CreateExecution(execution_id=ff.new_id(), execution_kind="job")
    pause(pair.follower)
    with pytest.raises(Unreplicated, match="0 of 1 replicas") as caught:
        await ff.store.apply(command)
    assert isinstance(caught.value, Unreachable)
    assert caught.value.retryable
    assert await ff.events(command.execution_id) == ["created"]  # it was done, and is seen
    other = await pair.store()  # a repeat finds it, on a connection that has written nothing of it
    with pytest.raises(Unreplicated):
        await other.store.apply(command)
    answers = await other.store.apply_many([command, command])
    assert [type(answer) for answer in answers] == [Unreplicated, Unreplicated]
    resume(pair.follower)
    await other.store.apply(command)
    assert len(await ff.claim(max_tasks=9)) == 1
    for driver in (ff, other):
        await driver.store.close()


async def test_a_refusal_of_the_server_is_told_as_it_is(pair: Pair) -> None:
    ff = await pair.store()
    ask(pair.primary, "CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(StoreFull):
        await ff.create()
    ask(pair.primary, "CONFIG", "SET", "maxmemory", "0")
    await ff.create()
    await ff.store.close()


async def test_questions_do_not_wait_for_replicas(pair: Pair) -> None:
    ff = await pair.store(wait=0)
    made = await ff.create()
    await ff.store.close()
    ff = await pair.store(wait=2)
    writing = asyncio.create_task(ff.create())
    assert (await ff.show(made)).execution_id == made
    assert not writing.done()
    with pytest.raises(Unreplicated, match="1 of 2"):
        await writing
    await ff.store.close()


async def test_the_server_takes_it_from_its_settings(pair: Pair) -> None:
    settings = load_settings(
        {"FF_STORE": pair.primary.url, "FF_VALKEY_WAIT": "2", "FF_WAITPOINT_HMAC_SECRET": SECRET}, {}
    )
    with pytest.raises(Unreplicated, match="1 of 2"):
        await Server.start(settings)


async def test_rare_commands_are_confirmed_too(pair: Pair) -> None:
    ff = await pair.store()
    pause(pair.follower)
    with pytest.raises(Unreplicated):
        await ff.store.apply(SeedSecret(kid="k1", secret_hex=SECRET))
    with pytest.raises(Unreplicated):
        await ff.store.acquire_leader_lease("b", "me", 1_000)
    await ff.store.close()


async def test_whoever_waits_is_told_when_the_primary_is_lost(pair: Pair) -> None:
    ff = await pair.store()
    pause(pair.follower)
    writing = [asyncio.create_task(ff.create()) for _ in range(3)]
    await asyncio.sleep(0)
    pair.primary.kill()
    for task in writing:
        with pytest.raises(Unreachable):
            await task
    await ff.store.close()
