"""Pausing a lane, what a lane and its workers add to the view of an execution, and running the ended again."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model.contracts.create import (
    OpenLane,
    Paused,
    PauseLane,
    Replay,
    Replayed,
    Unpaused,
    UnpauseLane,
)
from flowfabric.model.contracts.lease import RetryScheduled, Task
from flowfabric.model.contracts.reads import Describe, GetResult, ListAttempts, ListLanes, ListSteps
from flowfabric.model.contracts.streams import PutStep
from flowfabric.model.contracts.upkeep import ExpireExecution, MarkLeaseExpired, PromoteDelayed
from flowfabric.model.state import Public
from support import scenes
from support.driver import LEASE, Driver
from support.expect import refuses, untouched

READY = ("eligible_now", "waiting_for_worker", "waiting")
LANE_HELD = ("blocked_by_lane_state", "paused_by_policy", "waiting")
NO_WORKER = ("blocked_by_route", "waiting_for_capable_worker", "waiting")
GPU = {"routing_requirements": {"required_capabilities": ["gpu"]}}


async def view(ff: Driver, execution_id: str) -> tuple[str, str, str]:
    run = await ff.show(execution_id)
    return run.eligibility_state, run.blocking_reason, run.public_state


async def test_paused_lane_is_seen_on_its_work_and_stored_on_none(ff: Driver) -> None:
    before_pause = await ff.create(lane_id="a")
    elsewhere = await ff.create(lane_id="b")
    records = (await ff.store.dump()).records["execution"]
    command = PauseLane(lane_id="a", reason="flood", actor="ann")
    assert await ff.store.apply(command) == Paused()
    assert (await ff.store.dump()).records["execution"] == records
    after_pause = await ff.create(lane_id="a")
    for execution_id in (before_pause, after_pause):
        assert await view(ff, execution_id) == LANE_HELD
        description = await ff.store.read(Describe(execution_id=execution_id))
        assert "paused_by_policy" in [because.reason for because in description.because]
    assert await view(ff, elsewhere) == READY
    lanes = {lane.lane_id: lane for lane in await ff.store.read(ListLanes())}
    assert (lanes["a"].paused_at, lanes["a"].pause_reason, lanes["b"].paused_at) == (ff.now, "flood", 0)
    assert await ff.store.apply(UnpauseLane(lane_id="a")) == Unpaused()
    for execution_id in (before_pause, after_pause):
        assert await view(ff, execution_id) == READY


async def test_pausing_and_unpausing_a_lane_twice_changes_nothing(ff: Driver) -> None:
    await ff.store.apply(PauseLane(lane_id="a", reason="r"))
    ff.clock.advance(10)
    async with untouched(ff):
        assert await ff.store.apply(PauseLane(lane_id="a", reason="r")) == Paused()
    for _ in range(2):
        assert await ff.store.apply(UnpauseLane(lane_id="a")) == Unpaused()


async def test_an_opened_lane_is_listed_while_nothing_is_in_it(ff: Driver) -> None:
    assert await ff.store.apply(OpenLane(lane_id="new")) == Unpaused()
    (lane,) = await ff.store.read(ListLanes())
    assert (lane.lane_id, lane.counts, lane.paused_at) == ("new", (), 0)


async def test_opening_a_lane_that_is_known_changes_nothing(ff: Driver) -> None:
    await ff.store.apply(PauseLane(lane_id="a", reason="r"))
    await ff.store.apply(OpenLane(lane_id="b"))
    async with untouched(ff):
        assert await ff.store.apply(OpenLane(lane_id="a")) == Paused()
        assert await ff.store.apply(OpenLane(lane_id="b")) == Unpaused()


@pytest.mark.parametrize("name", ["active", "suspended", "completed", "cancelled"])
async def test_paused_lane_changes_nothing_on_what_does_not_queue(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff)
    before = await ff.vector(scene.execution_id)
    await ff.store.apply(PauseLane(lane_id="default"))
    assert await ff.vector(scene.execution_id) == before


async def test_running_work_of_a_paused_lane_goes_on(ff: Driver) -> None:
    task = await ff.running()
    await ff.store.apply(PauseLane(lane_id="default"))
    assert (await ff.complete(task)).public_state == "completed"


@pytest.mark.parametrize("lane", ["", "x" * 65, "\u00e9"])
async def test_bad_lanes_are_refused(ff: Driver, lane: str) -> None:
    await refuses(ff, PauseLane(lane_id=lane), "invalid_input")
    await refuses(ff, UnpauseLane(lane_id=lane), "invalid_input")


async def test_work_that_no_live_worker_can_run_says_so(ff: Driver) -> None:
    execution_id = await ff.create(policy=GPU)
    assert await view(ff, execution_id) == READY
    records = (await ff.store.dump()).records["execution"]
    assert await ff.claim() == ()
    assert (await ff.store.dump()).records["execution"] == records
    assert await view(ff, execution_id) == NO_WORKER
    await ff.claim(lanes=("other",), capabilities=("gpu",), worker_id="w2", worker_instance_id="w2-a")
    assert await view(ff, execution_id) == NO_WORKER
    ff.clock.advance(30_001)
    assert await view(ff, execution_id) == READY
    await ff.claim()
    assert await view(ff, execution_id) == NO_WORKER
    assert (await ff.claim_one(capabilities=("gpu",))).execution_id == execution_id


@pytest.mark.parametrize("name", scenes.ENDED)
async def test_ended_execution_runs_again(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff)
    before = await ff.show(scene.execution_id)
    ff.clock.advance(10)
    command = Replay(execution_id=scene.execution_id, reason="fixed", requested_by="ann", actor="ann")
    assert await ff.store.apply(command) == Replayed(Public.WAITING)
    assert await ff.vector(scene.execution_id) == (
        "runnable", "unowned", "eligible_now", "waiting_for_worker", "none", "pending_replay_attempt", "waiting",
    )  # fmt: skip
    run = await ff.show(scene.execution_id)
    assert (run.replay_count, run.completed_at, run.created_at) == (1, 0, before.created_at)
    assert run.total_attempt_count == before.total_attempt_count
    assert run.current_lease_epoch == before.current_lease_epoch
    last = (await ff.history(scene.execution_id))[-1]
    assert (last.event, last.reason, last.actor) == ("replayed", "fixed", "ann")
    assert (last.from_state, last.to_state) == (before.public_state, "waiting")
    task = await ff.claim_one()
    assert (task.attempt_type, task.attempt_index) == ("replay", before.total_attempt_count)
    assert task.fence.lease_epoch == before.current_lease_epoch + 1
    attempt = (await ff.store.read(ListAttempts(execution_id=scene.execution_id)))[-1]
    assert (attempt.kind, attempt.lineage_reason, attempt.requested_by) == ("replay", "fixed", "ann")
    assert attempt.previous_index == before.total_attempt_count - 1


@pytest.mark.parametrize("name", scenes.LIVE)
async def test_only_ended_executions_run_again(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff)
    await refuses(ff, Replay(execution_id=scene.execution_id), "execution_not_terminal")


async def test_unknown_execution_does_not_run_again(ff: Driver) -> None:
    await refuses(ff, Replay(execution_id=ff.new_id()), "execution_not_found")


@pytest.mark.parametrize(
    ("policy", "cap"), [({}, 10), ({"max_replay_count": 2}, 2), ({"max_replay_count": 0}, 0)]
)
async def test_replays_are_counted(ff: Driver, policy: dict[str, Any], cap: int) -> None:
    scene = await scenes.completed(ff, policy=policy)
    for count in range(cap):
        await ff.store.apply(Replay(execution_id=scene.execution_id))
        await ff.complete(await ff.claim_one())
        assert (await ff.show(scene.execution_id)).replay_count == count + 1
    await refuses(ff, Replay(execution_id=scene.execution_id), "max_replays_exhausted")


async def test_replay_starts_retries_and_reclaims_anew(ff: Driver) -> None:
    policy = {"retry_policy": {"max_retries": 1}, "max_reclaim_count": 1}
    task = await ff.running(policy=policy)
    execution_id = task.execution_id
    assert isinstance(await ff.fail(task), RetryScheduled)
    ff.clock.advance(1_000)
    await ff.store.apply(PromoteDelayed(execution_id=execution_id))
    await _lose_lease(ff, await ff.claim_one())
    await ff.fail(await ff.claim_one())
    run = await ff.show(execution_id)
    assert (run.public_state, run.retry_count, run.lease_reclaim_count) == ("failed", 1, 1)
    await ff.store.apply(Replay(execution_id=execution_id))
    run = await ff.show(execution_id)
    assert (run.retry_count, run.lease_reclaim_count, run.total_attempt_count) == (0, 0, 3)
    await _lose_lease(ff, await ff.claim_one())
    assert isinstance(await ff.fail(await ff.claim_one()), RetryScheduled)


async def _lose_lease(ff: Driver, task: Task) -> None:
    ff.clock.advance(LEASE)
    await ff.store.apply(MarkLeaseExpired(execution_id=task.execution_id))


@pytest.mark.parametrize("left", [1, 0, -1])
async def test_replay_keeps_a_deadline_that_lies_ahead(ff: Driver, left: int) -> None:
    deadline = ff.now + 5_000
    scene = await scenes.completed(ff, execution_deadline_at=deadline)
    ff.clock.now = deadline - left
    await ff.store.apply(Replay(execution_id=scene.execution_id))
    assert (await ff.show(scene.execution_id)).execution_deadline_at == (deadline if left > 0 else 0)
    ff.clock.now = deadline + 1
    await ff.store.apply(ExpireExecution(execution_id=scene.execution_id, reason="execution_deadline"))
    assert (await ff.show(scene.execution_id)).public_state == ("expired" if left > 0 else "waiting")


async def test_result_is_hidden_until_the_new_run_ends(ff: Driver) -> None:
    scene = await scenes.completed(ff)
    execution_id = scene.execution_id

    async def result(**fields: Any) -> bytes | None:
        stored = (await ff.store.read(GetResult(execution_id=execution_id, **fields))).result
        return stored.data if stored else None

    await ff.store.apply(Replay(execution_id=execution_id))
    assert (await result(), await result(attempt_index=0)) == (None, b"done")
    task = await ff.claim_one()
    assert (await result(), await result(attempt_index=0)) == (None, b"done")
    await ff.fail(task)
    assert (await result(), await result(attempt_index=0)) == (None, b"done")
    await ff.store.apply(Replay(execution_id=execution_id))
    await ff.complete(await ff.claim_one(), b"again")
    assert (await result(), await result(attempt_index=0)) == (b"again", b"done")
    assert (await result(attempt_index=1), await result(attempt_index=2)) == (None, b"again")


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({}, []),
        ({"keep_steps": True}, ["a", "b", "c"]),
        ({"from_step": "b"}, ["a"]),
        ({"from_step": "a"}, []),
    ],
)
async def test_replay_keeps_the_steps_that_it_is_told_to(
    ff: Driver, fields: dict[str, Any], kept: list[str]
) -> None:
    task = await ff.running()
    for name in "abc":
        step = PutStep(execution_id=task.execution_id, fence=task.fence, step_name=name, result=name.encode())
        await ff.store.apply(step)
    await ff.complete(task)
    await ff.store.apply(Replay(execution_id=task.execution_id, **fields))
    steps = (await ff.store.read(ListSteps(execution_id=task.execution_id))).steps
    assert [step.name for step in steps] == kept
    again = await ff.claim_one()
    assert ([step.name for step in again.steps], again.step_count) == (kept, len(kept))
