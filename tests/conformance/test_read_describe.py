"""Why an execution does not run now."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import pytest

from flowfabric.model.conditions import timeout_only
from flowfabric.model.limits import MAX_INT
from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.finish import Cancel, Delay
from flowfabric.model.operations.lane import PauseLane, UnpauseLane
from flowfabric.model.operations.lease import RevokeLease
from flowfabric.model.operations.operate import Block, Pause
from flowfabric.model.operations.read import Describe, Description, GetExecution
from flowfabric.model.operations.timer import MarkLeaseExpired
from flowfabric.model.operations.worker import MarkWorkerDead, RegisterWorker
from support.driver import LEASE, Driver
from support.waiting import suspend, suspended, unanswered

GPU = {"routing_requirements": {"required_capabilities": ["gpu", "cuda"]}}

Make = Callable[[Driver], Awaitable[str]]


async def describe(ff: Driver, execution_id: str) -> Description:
    return await ff.store.read(Describe(execution_id=execution_id))


async def reasons(ff: Driver, execution_id: str) -> list[str]:
    return [because.reason for because in (await describe(ff, execution_id)).because]


async def seen(ff: Driver, execution_id: str) -> tuple[str, str, str]:
    run = (await describe(ff, execution_id)).run
    return str(run.eligibility_state), str(run.blocking_reason), str(run.public_state)


def worker(
    instance: str, *capabilities: str, lanes: tuple[str, ...] = ("default",), ttl: int = 30_000
) -> RegisterWorker:
    return RegisterWorker(
        worker_id="w",
        worker_instance_id=instance,
        lanes=lanes,
        capabilities=capabilities,
        liveness_ttl_ms=ttl,
    )


async def waiting(ff: Driver) -> str:
    return await ff.create()


async def later(ff: Driver) -> str:
    return await ff.create(delay_until=ff.now + 1_000)


async def backoff(ff: Driver) -> str:
    task = await ff.running(policy={"retry_policy": {}})
    await ff.fail(task)
    return task.execution_id


async def delayed(ff: Driver) -> str:
    task = await ff.running()
    await ff.store.apply(Delay(execution_id=task.execution_id, fence=task.fence, delay_until=ff.now + 9))
    return task.execution_id


async def resumed_later(ff: Driver) -> str:
    wait = await suspended(ff)
    await wait.resume(resume_delay_ms=50)
    return wait.execution_id


async def held_signal(ff: Driver) -> str:
    return (await suspended(ff)).execution_id


async def held_approval(ff: Driver) -> str:
    return (await suspended(ff, reason_code="waiting_for_approval")).execution_id


async def blocked(ff: Driver, reason: str) -> str:
    execution_id = await ff.create()
    await ff.store.apply(Block(execution_id=execution_id, blocking_reason=reason))
    return execution_id


async def over_budget(ff: Driver) -> str:
    return await blocked(ff, "waiting_for_budget")


async def over_quota(ff: Driver) -> str:
    return await blocked(ff, "waiting_for_quota")


async def paused(ff: Driver) -> str:
    execution_id = await ff.create()
    await ff.store.apply(Pause(execution_id=execution_id, reason="audit"))
    return execution_id


async def lease_gone(ff: Driver) -> str:
    task = await ff.running()
    ff.clock.advance(LEASE)
    await ff.store.apply(MarkLeaseExpired(execution_id=task.execution_id))
    return task.execution_id


async def lease_taken(ff: Driver) -> str:
    task = await ff.running()
    await ff.store.apply(RevokeLease(execution_id=task.execution_id))
    return task.execution_id


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (waiting, "waiting_for_worker"),
        (later, "waiting_for_delay"),
        (delayed, "waiting_for_delay"),
        (backoff, "waiting_for_retry_backoff"),
        (resumed_later, "waiting_for_resume_delay"),
        (held_signal, "waiting_for_signal"),
        (held_approval, "waiting_for_approval"),
        (over_budget, "waiting_for_budget"),
        (over_quota, "waiting_for_quota"),
        (paused, "paused_by_operator"),
        (lease_gone, "waiting_for_worker"),
        (lease_taken, "waiting_for_worker"),
    ],
)
async def test_there_is_a_reason_in_a_word_and_in_a_sentence(ff: Driver, make: Make, reason: str) -> None:
    execution_id = await make(ff)
    shown = await describe(ff, execution_id)
    assert shown.run.blocking_reason == reason
    told = {because.reason: because.detail for because in shown.because}
    assert reason in told
    assert shown.run.lifecycle_phase == "active" or list(told) == [reason]
    assert all(len(detail.split()) > 2 for detail in told.values())


async def test_times_are_told_as_people_read_them(ff: Driver) -> None:
    (because,) = (await describe(ff, await later(ff))).because
    assert re.search(r"until \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ \(in 1s\)", because.detail)
    (because,) = (await describe(ff, await ff.create(delay_until=MAX_INT))).because
    assert str(MAX_INT) in because.detail  # no calendar has it
    wait = await suspended(ff, timeout_ms=7_200_000, timeout_behavior="expire")
    (because,) = (await describe(ff, wait.execution_id)).because
    assert re.search(
        r"waits for .* since .* \(0ms ago\); if nothing comes, it expires at .* \(in 2h\)$", because.detail
    )
    asleep = await suspended(
        ff, timeout_only(), seed=False, timeout_ms=90_000, timeout_behavior="auto_resume"
    )
    (because,) = (await describe(ff, asleep.execution_id)).because
    assert re.search(r"^sleeps until .* \(in 1m\)$", because.detail)


async def active(ff: Driver) -> Task:
    return await ff.running()


async def completed(ff: Driver) -> Task:
    task = await ff.running()
    await ff.complete(task)
    return task


async def failed(ff: Driver) -> Task:
    task = await ff.running()
    await ff.fail(task)
    return task


async def cancelled(ff: Driver) -> Task:
    task = await ff.running()
    await ff.store.apply(Cancel(execution_id=task.execution_id, source="operator_override"))
    return task


@pytest.mark.parametrize("make", [active, completed, failed, cancelled])
async def test_what_runs_or_has_ended_needs_no_reason(
    ff: Driver, make: Callable[[Driver], Awaitable[Task]]
) -> None:
    task = await make(ff)
    assert (await describe(ff, task.execution_id)).because == ()


async def test_an_unknown_execution(ff: Driver) -> None:
    await unanswered(ff, Describe(execution_id=ff.new_id()), "execution_not_found")


async def test_without_any_worker_it_waits_for_one(ff: Driver) -> None:
    execution_id = await ff.create(policy=GPU)
    assert await seen(ff, execution_id) == ("eligible_now", "waiting_for_worker", "waiting")
    assert await reasons(ff, execution_id) == ["waiting_for_worker"]
    assert (await describe(ff, execution_id)).live_workers == 0


async def test_without_a_capable_worker_it_says_what_is_missing(ff: Driver) -> None:
    execution_id = await ff.create(policy=GPU)
    await ff.store.apply(worker("one", "gpu"))
    await ff.store.apply(worker("two"))
    assert await seen(ff, execution_id) == ("blocked_by_route", "waiting_for_capable_worker", "waiting")
    shown = await describe(ff, execution_id)
    (because,) = shown.because
    assert because.reason == "waiting_for_capable_worker"
    assert "cuda" in because.detail
    assert "2" in because.detail
    assert shown.live_workers == 2


async def test_a_capable_worker_takes_the_block_away(ff: Driver) -> None:
    execution_id = await ff.create(policy=GPU)
    await ff.store.apply(worker("one"))
    await ff.store.apply(worker("two", "cuda", "gpu", "more"))
    assert await seen(ff, execution_id) == ("eligible_now", "waiting_for_worker", "waiting")
    (task,) = await ff.claim(worker_instance_id="two", worker_id="w", capabilities=("cuda", "gpu", "more"))
    assert task.execution_id == execution_id


async def test_two_half_capable_workers_do_not_make_one(ff: Driver) -> None:
    execution_id = await ff.create(policy=GPU)
    await ff.store.apply(worker("one", "gpu"))
    await ff.store.apply(worker("two", "cuda"))
    assert (await seen(ff, execution_id))[0] == "blocked_by_route"


async def test_workers_of_other_lanes_do_not_count(ff: Driver) -> None:
    execution_id = await ff.create(policy=GPU)
    await ff.store.apply(worker("one", "gpu", "cuda", lanes=("elsewhere",)))
    assert await seen(ff, execution_id) == ("eligible_now", "waiting_for_worker", "waiting")
    await ff.store.apply(worker("two", lanes=("elsewhere", "default")))
    assert (await seen(ff, execution_id))[0] == "blocked_by_route"


async def test_dead_workers_do_not_count(ff: Driver) -> None:
    execution_id = await ff.create(policy=GPU)
    await ff.store.apply(worker("one", ttl=1_000))
    await ff.store.apply(worker("two", ttl=5_000))
    ff.clock.advance(999)
    assert (await describe(ff, execution_id)).live_workers == 2
    ff.clock.advance(2)
    assert (await describe(ff, execution_id)).live_workers == 1
    await ff.store.apply(MarkWorkerDead(worker_instance_id="two"))
    assert (await seen(ff, execution_id))[1] == "waiting_for_worker"


async def test_a_claim_makes_a_worker_known_for_30_seconds(ff: Driver) -> None:
    execution_id = await ff.create(policy=GPU)
    assert await ff.claim() == ()
    assert (await seen(ff, execution_id))[0] == "blocked_by_route"
    ff.clock.advance(29_999)
    assert (await seen(ff, execution_id))[0] == "blocked_by_route"
    ff.clock.advance(2)
    assert (await seen(ff, execution_id))[0] == "eligible_now"


async def test_work_of_a_paused_lane(ff: Driver) -> None:
    execution_id, other = await ff.create(), await ff.create(lane_id="other")
    await ff.store.apply(PauseLane(lane_id="default", reason="night"))
    assert await seen(ff, execution_id) == ("blocked_by_lane_state", "paused_by_policy", "waiting")
    assert await reasons(ff, execution_id) == ["paused_by_policy"]
    assert "night" in (await describe(ff, execution_id)).because[0].detail
    lane = (await describe(ff, execution_id)).lane
    assert lane is not None
    assert (lane.lane_id, lane.paused_at) == ("default", ff.now)
    assert await seen(ff, other) == ("eligible_now", "waiting_for_worker", "waiting")
    assert await ff.claim() == ()
    await ff.store.apply(UnpauseLane(lane_id="default"))
    assert await seen(ff, execution_id) == ("eligible_now", "waiting_for_worker", "waiting")
    assert len(await ff.claim()) == 1


async def test_a_paused_lane_does_not_touch_what_runs_or_waits_for_a_signal(ff: Driver) -> None:
    await ff.seed()
    running = await ff.running()
    wait = await suspend(ff, await ff.running())
    await ff.store.apply(PauseLane(lane_id="default"))
    assert await reasons(ff, running.execution_id) == []
    assert await reasons(ff, wait.execution_id) == ["waiting_for_signal"]
    await ff.complete(running)


async def test_what_is_derived_is_not_stored(ff: Driver) -> None:
    execution_id = await ff.create(policy=GPU)
    await ff.store.apply(worker("one"))
    before = (await ff.store.dump()).records["execution"]
    await describe(ff, execution_id)
    await ff.store.apply(PauseLane(lane_id="default"))
    assert (await ff.store.dump()).records["execution"] == before


async def test_the_record_alone_is_what_is_stored(ff: Driver) -> None:
    execution_id = await ff.create(policy=GPU)
    await ff.store.apply(worker("one"))
    stored = (await ff.store.dump()).records["execution"][execution_id,]
    assert await ff.store.read(GetExecution(execution_id=execution_id)) == stored
    assert (await describe(ff, execution_id)).run != stored
    await unanswered(ff, GetExecution(execution_id=ff.new_id()), "execution_not_found")
