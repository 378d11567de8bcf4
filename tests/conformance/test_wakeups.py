"""Being woken by what happened, instead of asking again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from flowfabric.model.ids import partition_in
from flowfabric.model.operations.claim import Claim, Claimed, Task
from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.operations.finish import Cancel, Delay
from flowfabric.model.operations.lane import PauseLane, UnpauseLane
from flowfabric.model.operations.lease import RevokeLease
from flowfabric.model.operations.operate import Block, Pause, Replay, Unblock, Unpause
from flowfabric.model.operations.timer import ExpireExecution, MarkLeaseExpired, PromoteDelayed
from flowfabric.storage.base import Subscription
from support.driver import LEASE, Driver, new_uuid
from support.frames import append
from support.waiting import let_go, refused, suspend, suspended

SOON = 5.0
NOT = 0.03

Event = Callable[[], Awaitable[object]]
Setup = Callable[[Driver], Awaitable[Event]]


async def silence(ff: Driver, listener: Subscription, execution_id: str) -> None:
    """Let the news of what happened to an execution arrive: in a cluster it travels behind the answers, in order."""
    beside = next(new for new in iter(ff.new_id, "") if partition_in(new) == partition_in(execution_id))
    async with ff.store.subscribe(["lane:marker"]) as marker:
        await ff.create(execution_id=beside, lane_id="marker")
        assert await marker.wait(SOON)
    while await listener.wait(0):
        pass


async def submit(ff: Driver) -> Event:
    return ff.create


async def promote(ff: Driver) -> Event:
    execution_id = await ff.create(delay_until=ff.now + 5)
    ff.clock.advance(5)
    return lambda: ff.store.apply(PromoteDelayed(execution_id=execution_id))


async def release(ff: Driver) -> Event:
    task = await ff.running()
    return lambda: let_go(ff, task)


async def lease_expiry(ff: Driver) -> Event:
    task = await ff.running()
    ff.clock.advance(LEASE)
    return lambda: ff.store.apply(MarkLeaseExpired(execution_id=task.execution_id))


async def revocation(ff: Driver) -> Event:
    task = await ff.running()
    return lambda: ff.store.apply(RevokeLease(execution_id=task.execution_id))


async def retry_at_once(ff: Driver) -> Event:
    task = await ff.running(policy={"retry_policy": {}})
    return lambda: ff.fail(task, retry_after_ms=0)


async def delay_of_nothing(ff: Driver) -> Event:
    task = await ff.running()
    return lambda: ff.store.apply(Delay(execution_id=task.execution_id, fence=task.fence, delay_until=ff.now))


async def satisfying_signal(ff: Driver) -> Event:
    return (await suspended(ff)).signal


async def operators_resume(ff: Driver) -> Event:
    return (await suspended(ff)).resume


async def replay(ff: Driver) -> Event:
    task = await ff.running()
    await ff.complete(task)
    return lambda: ff.store.apply(Replay(execution_id=task.execution_id))


async def unpause(ff: Driver) -> Event:
    execution_id = await ff.create()
    await ff.store.apply(Pause(execution_id=execution_id))
    return lambda: ff.store.apply(Unpause(execution_id=execution_id))


async def unblock(ff: Driver) -> Event:
    execution_id = await ff.create()
    await ff.store.apply(Block(execution_id=execution_id, blocking_reason="waiting_for_quota"))
    return lambda: ff.store.apply(Unblock(execution_id=execution_id))


async def unpause_lane(ff: Driver) -> Event:
    await ff.create()
    await ff.store.apply(PauseLane(lane_id="default"))
    return lambda: ff.store.apply(UnpauseLane(lane_id="default"))


CLAIMABLE = [
    submit,
    promote,
    release,
    lease_expiry,
    revocation,
    retry_at_once,
    delay_of_nothing,
    satisfying_signal,
    operators_resume,
    replay,
    unpause,
    unblock,
    unpause_lane,
]


@pytest.mark.parametrize("setup", CLAIMABLE)
async def test_a_lane_wakes_when_there_is_work(ff: Driver, setup: Setup) -> None:
    happen = await setup(ff)
    async with ff.store.subscribe(["lane:default"]) as woken, ff.store.subscribe(["lane:other"]) as foreign:
        waiting = asyncio.create_task(woken.wait(SOON))
        await asyncio.sleep(0)
        await happen()
        assert await waiting
        assert not await foreign.wait(NOT)
    assert len(await ff.claim()) == 1


async def test_what_happened_before_the_wait_is_not_lost(ff: Driver) -> None:
    async with ff.store.subscribe(["lane:default"]) as woken:
        await ff.create()
        assert await woken.wait(SOON)
        assert not await woken.wait(NOT)
        await ff.create()
        assert await woken.wait(SOON)


async def test_nothing_happened(ff: Driver) -> None:
    execution_id = await ff.create()
    async with ff.store.subscribe(["lane:default", "feed", "due"]) as woken:
        await silence(ff, woken, execution_id)
        assert not await woken.wait(NOT)
        assert not await woken.wait(0)


async def test_whatever_falls_due_before_the_known_time_wakes_the_timer(ff: Driver) -> None:
    async with ff.store.subscribe(["due"]) as timer:
        ff.store.expect_due(0)
        await ff.create(delay_until=ff.now + 50_000)
        assert await timer.wait(SOON)
        assert ff.store.next_due() == ff.now + 50_000
        await ff.create(delay_until=ff.now + 60_000)
        assert not await timer.wait(NOT)
        await ff.create(execution_deadline_at=ff.now + 40_000)
        assert await timer.wait(SOON)
        await ff.claim_one()
        assert await timer.wait(SOON)
        assert ff.store.next_due() == ff.now + LEASE
        ff.store.expect_due(ff.now + 10)
        await ff.create(delay_until=ff.now + 11)
        assert not await timer.wait(NOT)
        await ff.create(delay_until=ff.now + 9)
        assert await timer.wait(SOON)


async def test_a_delayed_submit_wakes_no_worker(ff: Driver) -> None:
    async with ff.store.subscribe(["lane:default"]) as worker:
        await ff.create(delay_until=ff.now + 50)
        assert not await worker.wait(NOT)


async def test_one_subscription_hears_several_topics(ff: Driver) -> None:
    async with ff.store.subscribe(["lane:a", "lane:b"]) as woken:
        await ff.create(lane_id="b")
        assert await woken.wait(SOON)
        await ff.create(lane_id="a")
        assert await woken.wait(SOON)
        await ff.create(lane_id="c")
        assert not await woken.wait(NOT)


async def test_everybody_who_listens_is_woken(ff: Driver) -> None:
    async with ff.store.subscribe(["lane:default"]) as one, ff.store.subscribe(["lane:default"]) as two:
        await ff.create()
        assert await one.wait(SOON)
        assert await two.wait(SOON)


async def complete(ff: Driver) -> tuple[str, Event]:
    task = await ff.running()
    return task.execution_id, lambda: ff.complete(task)


async def fail(ff: Driver) -> tuple[str, Event]:
    task = await ff.running()
    return task.execution_id, lambda: ff.fail(task)


async def cancel(ff: Driver) -> tuple[str, Event]:
    execution_id = await ff.create()
    command = Cancel(execution_id=execution_id, source="operator_override")
    return execution_id, lambda: ff.store.apply(command)


async def frame(ff: Driver) -> tuple[str, Event]:
    task = await ff.running()
    return task.execution_id, lambda: append(ff, task, b"x")


async def claim(ff: Driver) -> tuple[str, Event]:
    return await ff.create(), ff.claim


async def suspension(ff: Driver) -> tuple[str, Event]:
    await ff.seed()
    task = await ff.running()
    return task.execution_id, lambda: suspend(ff, task)


async def signal(ff: Driver) -> tuple[str, Event]:
    wait = await suspended(ff)
    return wait.execution_id, lambda: wait.signal("noise")


@pytest.mark.parametrize("setup", [complete, fail, cancel, frame, claim, suspension, signal])
async def test_an_execution_wakes_those_who_watch_it(
    ff: Driver, setup: Callable[[Driver], Awaitable[tuple[str, Event]]]
) -> None:
    execution_id, happen = await setup(ff)
    stranger = ff.new_id()
    async with (
        ff.store.subscribe([f"execution:{execution_id}"]) as woken,
        ff.store.subscribe([f"execution:{stranger}"]) as foreign,
    ):
        await happen()
        assert await woken.wait(SOON)
        assert not await foreign.wait(NOT)


@pytest.mark.parametrize("setup", [complete, fail, cancel, claim, suspension, signal])
async def test_every_line_of_history_wakes_the_feed(
    ff: Driver, setup: Callable[[Driver], Awaitable[tuple[str, Event]]]
) -> None:
    _, happen = await setup(ff)
    async with ff.store.subscribe(["feed"]) as woken:
        await happen()
        assert await woken.wait(SOON)


async def cancelled(ff: Driver, task: Task) -> None:
    await ff.store.apply(Cancel(execution_id=task.execution_id, source="operator"))


async def revoked(ff: Driver, task: Task) -> None:
    await ff.store.apply(RevokeLease(execution_id=task.execution_id))


async def expired(ff: Driver, task: Task) -> None:
    ff.clock.advance(LEASE)
    await ff.store.apply(MarkLeaseExpired(execution_id=task.execution_id))


async def overdue(ff: Driver, task: Task) -> None:
    ff.clock.advance(LEASE - 1)
    await ff.store.apply(ExpireExecution(execution_id=task.execution_id, reason="execution_deadline"))


@pytest.mark.parametrize("taken", [cancelled, revoked, expired, overdue])
async def test_a_worker_wakes_when_a_lease_is_taken_from_it(
    ff: Driver, taken: Callable[[Driver, Task], Awaitable[None]]
) -> None:
    task = await ff.running(execution_deadline_at=ff.now + LEASE - 1)
    async with (
        ff.store.subscribe([f"worker:{task.worker_instance_id}"]) as woken,
        ff.store.subscribe(["worker:stranger"]) as foreign,
    ):
        await taken(ff, task)
        assert await woken.wait(SOON)
        assert not await foreign.wait(NOT)


async def test_a_worker_wakes_even_if_it_gets_what_was_taken_from_it_at_once(ff: Driver) -> None:
    task = await ff.running()
    again = Claim(
        worker_id="w1", worker_instance_id=task.worker_instance_id, lanes=("default",), mint=new_uuid()
    )
    async with ff.store.subscribe([f"worker:{task.worker_instance_id}"]) as woken:
        _, claimed = await ff.store.apply_many([RevokeLease(execution_id=task.execution_id), again])
        assert isinstance(claimed, Claimed)
        assert [each.execution_id for each in claimed.tasks] == [task.execution_id]
        assert await woken.wait(SOON)


async def test_what_a_worker_ends_itself_wakes_it_not(ff: Driver) -> None:
    await ff.seed()
    first, second, third = [await ff.running() for _ in range(3)]
    async with ff.store.subscribe([f"worker:{first.worker_instance_id}"]) as woken:
        await ff.complete(first)
        await ff.fail(second)
        await suspend(ff, third)
        await ff.running()
        assert not await woken.wait(NOT)


async def test_a_refusal_wakes_nobody(ff: Driver) -> None:
    execution_id = await ff.create()
    async with ff.store.subscribe([f"execution:{execution_id}", "lane:default", "feed"]) as woken:
        await silence(ff, woken, execution_id)
        await refused(ff, Replay(execution_id=execution_id), "execution_not_terminal")
        assert not await woken.wait(NOT)


async def test_several_commands_at_once_wake_too(ff: Driver) -> None:
    async with ff.store.subscribe(["lane:a"]) as one, ff.store.subscribe(["lane:b"]) as two:
        commands = [
            CreateExecution(execution_id=ff.new_id(), execution_kind="job", lane_id=lane) for lane in "ab"
        ]
        await ff.store.apply_many(commands)
        assert await one.wait(SOON)
        assert await two.wait(SOON)


async def test_who_listens_to_a_namespace_hears_nothing_of_others(ff: Driver) -> None:
    topics = ["lane:default", "feed", "worker:w-1"]
    async with ff.store.subscribe(topics, "mine") as woken, ff.store.subscribe(topics) as everybody:
        theirs = await ff.create(namespace="theirs")
        task = await ff.claim_one(worker_instance_id="w-1")
        await revoked(ff, task)
        await silence(ff, woken, theirs)
        assert set(everybody.woken()) == set(topics)
        assert woken.woken() == ()
        mine = await ff.create(namespace="mine", priority=9)
        assert await woken.wait(SOON)
        await silence(ff, woken, mine)
        assert set(woken.woken()) == {"lane:default", "feed"}
        task = await ff.claim_one(worker_instance_id="w-1", namespace="mine")
        assert task.execution_id == mine
        await silence(ff, woken, mine)
        woken.woken()
        await revoked(ff, task)
        await silence(ff, woken, mine)
        assert set(woken.woken()) == {"lane:default", "feed", "worker:w-1"}


async def test_commands_of_several_namespaces_at_once_wake_each(ff: Driver) -> None:
    async with (
        ff.store.subscribe(["lane:default"], "a") as one,
        ff.store.subscribe(["lane:default"], "b") as two,
        ff.store.subscribe(["lane:default"], "c") as three,
    ):
        await ff.store.apply_many(
            [
                CreateExecution(execution_id=ff.new_id(), execution_kind="job", namespace=namespace)
                for namespace in "abab"
            ]
        )
        assert await one.wait(SOON)
        assert await two.wait(SOON)
        assert not await three.wait(NOT)


async def test_a_lane_that_goes_on_wakes_every_namespace(ff: Driver) -> None:
    await ff.create(namespace="mine")
    await ff.store.apply(PauseLane(lane_id="default"))
    async with ff.store.subscribe(["lane:default"], "mine") as woken:
        await ff.store.apply(UnpauseLane(lane_id="default"))
        assert await woken.wait(SOON)
