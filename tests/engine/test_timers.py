"""The timer loop, with a clock that the test moves."""

from __future__ import annotations

import pytest

from flowfabric.engine import Timers
from flowfabric.model.command import Command
from flowfabric.model.errors import InternalError
from flowfabric.model.operations.finish import Delay
from flowfabric.storage.store_base import StoreBase
from support.driver import Driver

DAY = 86_400_000


async def test_everything_that_is_due_happens_in_one_sweep(ff: Driver) -> None:
    delayed = await ff.create(delay_until=ff.now + 500)
    lost = (await ff.running()).execution_id
    expiring = await ff.create(execution_deadline_at=ff.now + 700, lane_id="elsewhere")
    slow = await ff.running(
        lane_id="slow",
        policy={"timeout_policy": {"attempt_timeout_ms": 400}, "retry_policy": {"max_retries": 1}},
    )
    ff.clock.advance(30_000)
    assert await Timers(ff.store).fire_due() >= 4
    assert (await ff.show(delayed)).public_state == "waiting"
    assert (await ff.show(lost)).ownership_state == "lease_expired_reclaimable"
    assert (await ff.show(expiring)).public_state == "expired"
    assert (await ff.show(slow.execution_id)).retry_count == 1


async def test_nothing_happens_before_its_time(ff: Driver) -> None:
    delayed = await ff.create(delay_until=ff.now + 500)
    ff.clock.advance(499)
    assert await Timers(ff.store).fire_due() == 0
    assert (await ff.show(delayed)).public_state == "delayed"
    assert ff.store.next_due() == ff.now + 1


async def test_ended_work_is_purged_when_its_retention_is_over(ff: Driver) -> None:
    task = await ff.running()
    await ff.complete(task, b"result")
    ff.clock.advance(DAY)
    await Timers(ff.store).fire_due()
    await ff.store.collect()
    contents = await ff.store.dump()
    assert contents.records.pop("past")  # for a day, the feed still tells of it
    assert task.execution_id not in str(contents)
    ff.clock.advance(DAY)
    await ff.store.collect()
    assert task.execution_id not in str(await ff.store.dump())


async def test_more_than_a_page_of_due_work_is_done(ff: Driver) -> None:
    ids = [await ff.create(delay_until=ff.now + 10) for _ in range(450)]
    ff.clock.advance(10)
    assert await Timers(ff.store).fire_due() == len(ids)
    assert len(await ff.claim(max_tasks=256)) == 256


async def test_a_failing_step_blocks_nobody_else(ff: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = await ff.create(delay_until=ff.now + 10)
    good = await ff.create(delay_until=ff.now + 20)
    timers = Timers(ff.store)
    assert isinstance(ff.store, StoreBase)
    decide = type(ff.store).apply_many

    async def failing(store: StoreBase, commands: list[Command[object]]) -> list[object]:
        replies = await decide(store, commands)
        return [
            InternalError("boom") if getattr(command, "execution_id", "") == bad else reply
            for command, reply in zip(commands, replies, strict=True)
        ]

    monkeypatch.setattr(type(ff.store), "apply_many", failing)
    ff.clock.advance(30)
    await timers.fire_due()
    assert (await ff.show(good)).public_state == "waiting"


async def test_a_wait_of_the_same_attempt_ends_by_itself(ff: Driver) -> None:
    task = await ff.running()
    await ff.store.apply(Delay(execution_id=task.execution_id, fence=task.fence, delay_until=ff.now + 1000))
    ff.clock.advance(1000)
    await Timers(ff.store).fire_due()
    assert (await ff.claim_one()).attempt_type == "resumed"


async def test_one_at_a_time_holds_the_leader_lease(ff: Driver) -> None:
    take = ff.store.acquire_leader_lease
    assert await take("timers", "first", 1000)
    assert not await take("timers", "second", 1000)
    assert await take("timers", "first", 1000)
    ff.clock.advance(1000)
    assert await take("timers", "second", 1000)
    assert not await take("timers", "first", 1000)
    await ff.store.release_leader_lease("timers", "first")
    assert not await take("timers", "first", 1000)
    await ff.store.release_leader_lease("timers", "second")
    assert await take("timers", "first", 1000)
    assert await take("other", "second", 1000)
