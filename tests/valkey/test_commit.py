"""The general path: what was decided in a process is written only if everything it has read is still the same."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from multiprocessing import get_context
from typing import Any

import pytest

from flowfabric.model.errors import FlowFabricError, SchemaTooNew, Unreachable
from flowfabric.model.limits import MIN_LEASE_TTL_MS
from flowfabric.model.operations.claim import Claim
from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.operations.finish import Complete, Completed
from flowfabric.model.operations.lease import Renew
from flowfabric.model.operations.operate import ChangePriority, Pause, PriorityChanged, SetTags, Unpause
from flowfabric.model.operations.timer import MarkLeaseExpired
from flowfabric.storage.valkey import ClusterStore, ValkeyStore
from flowfabric.storage.valkey.connection.client import Client
from flowfabric.storage.valkey.lua.library import VERSION
from support.clock import ManualClock
from support.driver import Driver, new_uuid
from support.until import until
from support.valkey import ValkeyServer
from support.valkey_cluster import ValkeyCluster

Between = Callable[[ValkeyStore], Awaitable[object]]


@pytest.fixture
async def general(server: ValkeyServer) -> AsyncIterator[Driver]:
    """A store without fast paths, by the server's clock."""
    store = await ValkeyStore.open(server.url, fast_paths=False)
    yield Driver(store, ManualClock())
    await store.close()


@pytest.fixture
async def elsewhere(server: ValkeyServer) -> AsyncIterator[Driver]:
    """Another process, as it were."""
    store = await ValkeyStore.open(server.url)
    yield Driver(store, ManualClock())
    await store.close()


def before_commit(
    monkeypatch: pytest.MonkeyPatch, store: ValkeyStore, act: Between, times: int = 1
) -> list[Any]:
    """Let something happen between the decision and the commit of a store; return the commits as they are sent."""
    send, sent = store.client.functions, list[Any]()

    async def functions(calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        sent.extend(calls)
        if len(sent) <= times:
            await act(store)
        return await send(calls)

    monkeypatch.setattr(store.client, "functions", functions)
    return sent


def store_of(ff: Driver) -> ValkeyStore:
    assert isinstance(ff.store, ValkeyStore)
    return ff.store


async def test_a_command_takes_two_round_trips(general: Driver) -> None:
    execution_id = await general.create()
    before = store_of(general).client.writes
    await general.store.apply(ChangePriority(execution_id=execution_id, priority=3))
    assert store_of(general).client.writes == before + 2


async def test_commands_of_a_batch_share_one_commit(general: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [await general.create() for _ in range(20)]
    commits = before_commit(monkeypatch, store_of(general), lambda _: asyncio.sleep(0))
    await general.store.apply_many([ChangePriority(execution_id=each, priority=3) for each in ids])
    assert len(commits) == 2  # of sixteen, and of four


async def test_what_changed_meanwhile_is_decided_again_without_a_second_load(
    general: Driver, elsewhere: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution_id = await general.create(priority=1)

    async def interfere(_: ValkeyStore) -> None:
        await elsewhere.store.apply(ChangePriority(execution_id=execution_id, priority=5))

    commits = before_commit(monkeypatch, store_of(general), interfere)
    writes = store_of(general).client.writes
    changed = await general.store.apply(ChangePriority(execution_id=execution_id, priority=9))
    assert changed == PriorityChanged(5, 9)
    assert (len(commits), store_of(general).client.writes) == (2, writes + 3)
    assert await general.events(execution_id) == ["created", "priority_changed", "priority_changed"]


async def test_what_is_created_meanwhile_is_seen(
    general: Driver, elsewhere: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also an absent record is a read that must still be the same."""
    execution_id = general.new_id()

    async def interfere(_: ValkeyStore) -> None:
        await elsewhere.create(execution_id=execution_id)

    before_commit(monkeypatch, store_of(general), interfere)
    command = CreateExecution(execution_id=execution_id, execution_kind="job")
    answer = await general.store.apply(command)
    assert type(answer).__name__ == "Duplicate"
    assert await general.events(execution_id) == ["created"]


async def test_a_lease_that_runs_out_before_the_commit_is_not_renewed(
    general: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await general.create()
    task = await general.claim_one(lease_ttl_ms=MIN_LEASE_TTL_MS)

    async def wait(store: ValkeyStore) -> None:
        await until(lambda: store.now() > task.lease_expires_at + 5)

    commits = before_commit(monkeypatch, store_of(general), wait)
    renew = Renew(execution_id=task.execution_id, fence=task.fence, lease_ttl_ms=60_000)
    with pytest.raises(FlowFabricError) as refused:
        await general.store.apply(renew)
    assert (refused.value.code, len(commits)) == ("lease_expired", 2)


async def test_an_old_decision_is_made_again(general: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    execution_id = await general.create()
    send = store_of(general).client.functions
    replies: list[Any] = []

    async def functions(calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        (call,) = calls
        if not replies:  # decided three seconds ago
            call = (*call[:6], str(int(call[6]) - 3_000), *call[7:])
        replies.extend(await send([call]))
        return replies[-1:]

    monkeypatch.setattr(store_of(general).client, "functions", functions)
    await general.store.apply(ChangePriority(execution_id=execution_id, priority=3))
    assert [reply[0] for reply in replies] == [0, 1]


async def test_eight_clients_on_one_execution_lose_nothing(server: ValkeyServer, general: Driver) -> None:
    execution_id = await general.create()
    stores = [await ValkeyStore.open(server.url, fast_paths=False) for _ in range(8)]

    async def change(place: int, store: ValkeyStore) -> None:
        for n in range(12):
            await store.apply(ChangePriority(execution_id=execution_id, priority=100 * place + n))

    try:
        await asyncio.gather(*(change(place, store) for place, store in enumerate(stores)))
    finally:
        for store in stores:
            await store.close()
    history = await general.history(execution_id)
    assert [event.seq for event in history] == list(range(1, 98))
    changes = [dict(event.details) for event in history[1:]]
    assert [each["old"] for each in changes[1:]] == [each["new"] for each in changes[:-1]]
    assert (await general.store.repair(fix=False)).wrong == ()


def die_before_the_commit(url: str, execution_id: str) -> None:
    """Load and decide in a process of its own, and end it as `kill -9` does instead of writing."""

    async def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    async def run() -> None:
        store = await ValkeyStore.open(url, fast_paths=False)
        Client.functions = die  # type: ignore[method-assign,assignment]
        await store.apply(ChangePriority(execution_id=execution_id, priority=3))

    asyncio.run(run())


async def test_a_client_that_dies_before_its_commit_leaves_nothing(
    server: ValkeyServer, general: Driver
) -> None:
    execution_id = await general.create()
    before = await general.store.dump()
    process = get_context("spawn").Process(target=die_before_the_commit, args=(server.url, execution_id))
    process.start()
    await asyncio.to_thread(process.join)
    assert process.exitcode == -signal.SIGKILL
    assert await general.store.dump() == before
    await general.store.apply(ChangePriority(execution_id=execution_id, priority=3))


async def test_a_client_of_an_older_version_cannot_commit(
    general: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution_id = await general.create()
    monkeypatch.setattr("flowfabric.storage.valkey.unit.VERSION", VERSION - 1)
    monkeypatch.setattr("flowfabric.storage.valkey.connection.client.VERSION", VERSION - 1)
    with pytest.raises(SchemaTooNew, match="this FlowFabric has"):
        await general.store.apply(ChangePriority(execution_id=execution_id, priority=3))
    assert await general.events(execution_id) == ["created"]


async def test_a_commit_whose_reply_was_lost_can_be_repeated(
    general: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await general.running()
    send = store_of(general).client.functions

    async def lose(calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        await send(calls)
        return [Unreachable("the connection was lost")]

    monkeypatch.setattr(store_of(general).client, "functions", lose)
    complete = Complete(execution_id=task.execution_id, fence=task.fence, result=b"1")
    with pytest.raises(Unreachable):
        await general.store.apply(complete)
    monkeypatch.undo()
    assert isinstance(await general.store.apply(complete), Completed)
    assert (await general.events(task.execution_id)).count("completed") == 1


async def test_a_worker_hears_of_a_lease_that_it_lost_and_got_back_in_one_group(general: Driver) -> None:
    """A group stores net moves: the holder is the same, the lease is not."""
    await general.create()
    task = await general.claim_one(lease_ttl_ms=MIN_LEASE_TTL_MS)
    await until(lambda: general.store.now() > task.lease_expires_at + 5)
    async with general.store.subscribe([f"worker:{task.worker_instance_id}"]) as woken:
        again = Claim(
            worker_id=task.worker_id,
            worker_instance_id=task.worker_instance_id,
            lanes=("default",),
            mint=new_uuid(),
            lease_ttl_ms=60_000,
        )
        lost = MarkLeaseExpired(execution_id=task.execution_id)
        replies: list[Any] = await general.store.apply_many([lost, again])
        assert replies[1].tasks[0].fence.lease_epoch == task.fence.lease_epoch + 1
        assert await woken.wait(5)


async def test_work_that_a_group_takes_out_and_puts_back_is_claimed_once(general: Driver) -> None:
    execution_id = await general.create()
    pause, unpause = Pause(execution_id=execution_id), Unpause(execution_id=execution_id)
    claim = Claim(
        worker_id="w",
        worker_instance_id="w-a",
        lanes=("default",),
        mint=new_uuid(),
        lease_ttl_ms=60_000,
        max_tasks=2,
    )
    replies: list[Any] = await general.store.apply_many([pause, unpause, claim])
    assert [task.execution_id for task in replies[2].tasks] == [execution_id]


async def test_a_policy_that_says_nothing_is_kept_as_it_came(general: Driver) -> None:
    """Python cannot tell it from none; what is stored can."""
    said: list[dict[str, Any] | None] = [None, {}]
    for policy in said:
        execution_id = await general.create(policy=policy)
        await general.store.apply(SetTags(execution_id=execution_id, tags=(("a", "b"),)))
        task = await general.claim_one()
        assert task.execution_id == execution_id
        assert task.policy == (b"" if policy is None else b"{}")


async def test_commands_of_several_homes_are_decided_side_by_side(cluster: ValkeyCluster) -> None:
    store = await ClusterStore.open(cluster.url, fast_paths=False)
    ff = Driver(store, ManualClock())
    ids = [await ff.create() for _ in range(12)]
    replies: list[Any] = await store.apply_many(
        [ChangePriority(execution_id=each, priority=7) for each in ids]
    )
    await store.close()
    assert replies == [PriorityChanged(0, 7)] * 12
