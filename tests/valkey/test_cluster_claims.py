"""Claiming on a cluster: what it costs, in which order work comes, and that "none" is true whatever was heard."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from flowfabric.model.operations.lane import ListLanes, PauseLane, UnpauseLane
from flowfabric.model.operations.read_list import ListExecutions
from flowfabric.model.operations.timer import MarkLeaseExpired
from flowfabric.model.operations.worker import ListWorkers
from flowfabric.model.presence import RENOTE_MS
from flowfabric.storage.valkey import ClusterStore, keys
from support.driver import Driver
from support.valkey_cluster import ValkeyCluster, ask
from support.valkey_nodes import info

pytestmark = pytest.mark.timeout(60)


class Calls:
    """What clients have asked of each server since this was made."""

    def __init__(self, cluster: ValkeyCluster) -> None:
        self._cluster = cluster
        for server in cluster.servers:
            ask(server, "CONFIG", "RESETSTAT")

    def each(self) -> list[Counter[str]]:
        found = []
        for server in self._cluster.servers:
            told = info(server, "commandstats")
            wanted = ("fcall", "fcall_ro", "get", "hgetall", "cluster|slots")
            found.append(Counter({name: told.get(f"cmdstat_{name}", {}).get("calls", 0) for name in wanted}))
        return found

    def of(self, name: str) -> list[int]:
        return [calls[name] for calls in self.each()]


def store_of(ff: Driver) -> ClusterStore:
    assert isinstance(ff.store, ClusterStore)
    return ff.store


def deafen(ff: Driver) -> None:
    """Let a store hear nothing more of what others do."""
    ear = store_of(ff)._wakeups._ear
    assert ear is not None
    assert ear._transport is not None
    ear._transport.pause_reading()


async def test_a_claim_of_one_is_one_call_of_one_server(spread: Driver, cluster: ValkeyCluster) -> None:
    made = [await spread.create() for _ in range(8)]
    assert len(await spread.claim()) == 1  # looks, follows the lane, gives a sign of life
    store = store_of(spread)
    for left in range(len(made) - 1, 0, -1):
        calls, before = Calls(cluster), store.client.writes
        assert len(await spread.claim()) == 1
        assert store.client.writes == before + 1, left
        assert sorted(calls.of("fcall")) == [0, 0, 1]
        assert calls.of("fcall_ro") == [0, 0, 0]


async def test_a_batch_is_two_rounds(spread: Driver, cluster: ValkeyCluster) -> None:
    for _ in range(40):
        await spread.create()
    await spread.claim()
    store = store_of(spread)
    calls, before = Calls(cluster), store.client.writes
    assert len(await spread.claim(max_tasks=32)) == 32
    assert calls.of("fcall_ro") == [1, 1, 1]
    assert sum(calls.of("fcall")) == 32
    # The calls of a turn leave in one write or two.
    assert store.client.writes - before <= 3 * len(cluster.servers)


async def test_nothing_is_one_look_at_each_server(spread: Driver, cluster: ValkeyCluster) -> None:
    assert await spread.claim() == ()
    calls = Calls(cluster)
    assert await spread.claim() == ()
    assert calls.of("fcall_ro") == [1, 1, 1]
    assert calls.of("fcall") == [0, 0, 0]


async def test_none_is_true_although_nobody_told(spread: Driver, other: Driver) -> None:
    assert await spread.claim() == ()
    deafen(spread)
    for _ in range(5):
        made = await other.create()
        assert (await spread.claim_one()).execution_id == made
    assert await spread.claim() == ()


async def test_a_hint_that_is_wrong_costs_a_look_and_nothing_else(spread: Driver, other: Driver) -> None:
    await spread.create(priority=5)
    second = await spread.create()
    spread.clock.advance(1)
    third = await spread.create()
    assert await spread.claim()
    deafen(spread)
    assert (await other.claim_one()).execution_id == second
    assert (await spread.claim_one()).execution_id == third
    assert await spread.claim() == ()


async def test_what_others_do_is_heard(spread: Driver, other: Driver, cluster: ValkeyCluster) -> None:
    """A lane that is claimed from is followed: the next claim goes straight to what somebody else submitted."""
    await spread.create()
    await spread.claim()
    async with spread.store.subscribe(["lane:default"]) as woken:
        made = await other.create()
        assert await woken.wait(5)
    calls = Calls(cluster)
    assert (await spread.claim_one()).execution_id == made
    assert sum(calls.of("fcall")) == 1
    assert sum(calls.of("fcall_ro")) == 0


async def test_a_lost_ear_is_no_matter(spread: Driver, other: Driver, cluster: ValkeyCluster) -> None:
    await spread.create()
    await spread.claim()
    async with spread.store.subscribe(["lane:default"]) as woken:
        for server in cluster.servers:
            ask(server, "CLIENT", "KILL", "TYPE", "pubsub")
        assert await woken.wait(5)
        made = await other.create()
        assert (await spread.claim_one()).execution_id == made


@pytest.mark.parametrize("batch", [1, 7])
async def test_the_order_is_exact_for_one_process(spread: Driver, batch: int) -> None:
    made = []
    for place in range(30):
        priority = (0, 7, 3)[place % 3]
        made.append((-priority, place, await spread.create(priority=priority)))
        spread.clock.advance(place % 2)
    taken: list[str] = []
    while tasks := await spread.claim(max_tasks=batch):
        taken += [task.execution_id for task in tasks]
    times = {id_: (await spread.show(id_)).created_at for *_, id_ in made}
    assert taken == [id_ for *_, id_ in sorted(made, key=lambda row: (row[0], times[row[2]], row[2]))]


async def test_lists_are_in_the_order_of_arrival(spread: Driver) -> None:
    made = [await spread.create() for _ in range(30)]
    page = await spread.store.read(ListExecutions(limit=100, newest_first=False))
    assert [run.execution_id for run in page.runs] == made
    found: list[str] = []
    cursor = 0
    while True:
        page = await spread.store.read(ListExecutions(limit=7, after=cursor))
        found += [run.execution_id for run in page.runs]
        cursor = page.next
        if not cursor:
            break
    assert found == made[::-1]


async def test_several_claimers_never_take_the_same(spread: Driver, other: Driver) -> None:
    made = {await spread.create() for _ in range(60)}
    taken: list[str] = []

    async def work(ff: Driver, name: str, batch: int) -> None:
        while tasks := await ff.claim(worker_instance_id=name, max_tasks=batch):
            taken.extend(task.execution_id for task in tasks)

    await asyncio.gather(
        *(work(ff, f"{at}-{n}", n) for at, ff in enumerate((spread, other)) for n in (1, 1, 4))
    )
    assert len(taken) == len(made)
    assert set(taken) == made


async def test_a_claim_is_a_sign_of_life_that_is_not_given_all_the_time(
    spread: Driver, cluster: ValkeyCluster
) -> None:
    async def given(**fields: object) -> int:
        calls = Calls(cluster)
        await spread.claim(**fields)
        return sum(calls.of("fcall"))

    assert await given() == 1
    (worker,) = await spread.store.read(ListWorkers())
    assert (worker.worker_instance_id, worker.lanes) == ("w1-a", ("default",))
    assert await given() == 0
    assert await given(capabilities=("gpu",)) == 1
    spread.clock.advance(RENOTE_MS)
    assert await given(capabilities=("gpu",)) == 1
    (worker,) = await spread.store.read(ListWorkers())
    assert (worker.last_heartbeat_at, worker.capabilities) == (spread.now, ("gpu",))


async def test_a_paused_lane_is_paused_in_every_partition(
    spread: Driver, other: Driver, cluster: ValkeyCluster
) -> None:
    for _ in range(12):
        await spread.create()
    await spread.store.apply(PauseLane(lane_id="default", reason="later"))
    assert await spread.claim(max_tasks=20) == ()
    assert await other.claim() == ()
    # A process died before it had written all copies.
    store = store_of(spread)
    for home in store._layout.homes[::2]:
        await store.client.call("DEL", home + keys.LANES)
    assert await other.claim(max_tasks=20) != ()
    await store.collect()
    assert await other.claim(max_tasks=20) == ()
    await spread.store.apply(UnpauseLane(lane_id="default"))
    (lane,) = await spread.store.read(ListLanes())
    assert lane.paused_at == 0
    assert await other.claim()
    assert await spread.claim()


async def test_a_repeat_gets_the_same_tasks_and_disturbs_nothing(spread: Driver) -> None:
    for _ in range(6):
        await spread.create()
    one = await spread.claim(claim_id="one")
    several = await spread.claim(claim_id="several", max_tasks=3)
    before = await spread.store.dump()
    assert await spread.claim(claim_id="one") == one
    assert await spread.claim(claim_id="several", max_tasks=3) == several
    assert await spread.store.dump() == before


async def test_a_repeat_in_another_process_gives_back_what_it_took(spread: Driver, other: Driver) -> None:
    first, second = await spread.create(), await spread.create()
    assert await other.claim(worker_instance_id="w2-a", lanes=("none",)) == ()
    tasks = await spread.claim(claim_id="c")
    assert [task.execution_id for task in tasks] == [min(first, second)]
    await other.claim(worker_instance_id="w2-a", lanes=("default",), kinds=("none",))  # it knows the lane now
    assert await other.claim(claim_id="c") == tasks
    left = max(first, second)
    assert (await spread.events(left))[-1] == "released"
    assert (await spread.claim_one(claim_id="d")).execution_id == left


async def test_what_a_claim_held_once_is_no_repeat(spread: Driver) -> None:
    made = await spread.create()
    await spread.claim(claim_id="c", lease_ttl_ms=1_000)
    spread.clock.advance(1_000)
    await spread.store.apply(MarkLeaseExpired(execution_id=made))
    (task,) = await spread.claim(claim_id="c")
    assert (task.execution_id, task.attempt_type) == (made, "reclaim")
    await spread.complete(task)
    assert await spread.claim(claim_id="c") == ()


async def test_what_was_claimed_counts_when_no_sign_of_life_can_be_given(spread: Driver) -> None:
    made = await spread.create()
    await store_of(spread).client.call("SET", keys.COMMON + keys.WORKERS, "no hash")
    assert [task.execution_id for task in await spread.claim()] == [made]
