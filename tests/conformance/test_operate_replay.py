"""Replay: an ended execution runs again."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.finish import RetryScheduled
from flowfabric.model.operations.operate import Replay, Replayed
from flowfabric.model.operations.read import GetResult, ListAttempts
from flowfabric.model.operations.step import ListSteps, PutStep
from flowfabric.model.operations.timer import ExpireExecution, MarkLeaseExpired, PromoteDelayed
from flowfabric.model.state import Public
from support import scenes
from support.driver import LEASE, Driver
from support.expect import refuses


@pytest.mark.parametrize("name", scenes.ENDED)
async def test_ended_execution_runs_again(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff)
    before = await ff.show(scene.execution_id)
    ff.clock.advance(10)
    command = Replay(execution_id=scene.execution_id, reason="fixed", requested_by="ann", actor="ann")
    assert await ff.store.apply(command) == Replayed(Public.WAITING)
    assert await ff.vector(scene.execution_id) == (
        "runnable",
        "unowned",
        "eligible_now",
        "waiting_for_worker",
        "none",
        "pending_replay_attempt",
        "waiting",
    )
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
