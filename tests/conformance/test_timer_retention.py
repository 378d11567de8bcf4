"""Retention: how long an ended execution is kept, and that nothing of it stays behind."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model.conditions import single
from flowfabric.model.limits import DAY_MS
from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.lease import UpdateProgress
from flowfabric.model.operations.operate import SetTags
from flowfabric.model.operations.read import GetResult, ReadHistory
from flowfabric.model.operations.read_list import ListExecutions
from flowfabric.model.operations.signal import DeliverSignal
from flowfabric.model.operations.step import PutStep
from flowfabric.model.operations.stream import AppendFrames, FrameInput
from flowfabric.model.operations.suspend import Binding, Suspend, Suspended
from flowfabric.model.operations.suspend_waitpoint import CreateWaitpoint
from flowfabric.model.operations.timer import MarkLeaseExpired, PromoteDelayed, Purge, ReadDue
from support import scenes
from support.driver import LEASE, Driver, new_uuid
from support.expect import refused, untouched


def kept(ms: int) -> dict[str, Any]:
    return {"stream_policy": {"retention_ttl_ms": ms}}


@pytest.mark.parametrize("name", scenes.ENDED)
@pytest.mark.parametrize(
    ("policy", "ms"), [({}, DAY_MS), (kept(5_000), 5_000), (kept(3 * DAY_MS), 3 * DAY_MS)]
)
async def test_ended_execution_is_kept_for_its_own_time(
    ff: Driver, name: str, policy: dict[str, Any], ms: int
) -> None:
    scene = await scenes.STAGES[name](ff, policy=policy)
    ff.clock.now = (await ff.show(scene.execution_id)).completed_at + ms - 1
    async with untouched(ff):
        await ff.store.apply(Purge(execution_id=scene.execution_id))
    ff.clock.advance(1)
    await ff.store.apply(Purge(execution_id=scene.execution_id))
    for question in (ReadHistory, GetResult):
        with refused("execution_not_found"):
            await ff.store.read(question(execution_id=scene.execution_id))


@pytest.mark.parametrize("name", scenes.LIVE)
async def test_live_execution_is_never_purged(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff, policy=scenes.RETRIES | kept(0))
    ff.clock.advance(1_000 * DAY_MS)
    async with untouched(ff):
        await ff.store.apply(Purge(execution_id=scene.execution_id))


async def _wait_for_go(ff: Driver, task: Task) -> None:
    """Suspend on two kinds of waitpoint, get signals, and be claimed again."""
    pending = CreateWaitpoint(
        execution_id=task.execution_id,
        fence=task.fence,
        waitpoint_id=new_uuid(),
        waitpoint_key="unused",
        expires_in_ms=DAY_MS,
    )
    await ff.store.apply(pending)
    answer = await ff.store.apply(
        Suspend(
            execution_id=task.execution_id,
            fence=task.fence,
            suspension_id=new_uuid(),
            waitpoints=(Binding(new_uuid(), "k"),),
            condition=single("k", "go"),
            step_name="wait",
        )
    )
    assert isinstance(answer, Suspended)
    for name in ("other", "go"):
        await ff.store.apply(
            DeliverSignal(
                execution_id=task.execution_id,
                waitpoint_id=answer.waitpoint.waitpoint_id,
                waitpoint_token=answer.waitpoint.waitpoint_token,
                signal_id=new_uuid(),
                signal_name=name,
                payload=b"p",
            )
        )


async def _write_everything(ff: Driver, task: Task) -> None:
    fields: dict[str, Any] = {"execution_id": task.execution_id, "fence": task.fence}
    frames = (
        FrameInput(b"a"),
        FrameInput(b'{"x": 1}', mode="summary"),
        FrameInput(b"b", mode="best_effort", ttl_ms=1_000),
    )
    await ff.store.apply(AppendFrames(frames=frames, **fields))
    await ff.store.apply(PutStep(step_name=f"s{task.attempt_index}", result=b"1", **fields))
    await ff.store.apply(UpdateProgress(pct=5, message="m", **fields))


async def _full_life(ff: Driver) -> str:
    """Retry, reclaim, suspend and complete one execution that leaves traces everywhere."""
    task = await ff.running(input_payload=b"in", tags=(("a", "1"),), policy=scenes.RETRIES)
    await _write_everything(ff, task)
    await ff.fail(task, detail="trace")
    ff.clock.advance(1_000)
    await ff.store.apply(PromoteDelayed(execution_id=task.execution_id))
    task = await ff.claim_one()
    await _write_everything(ff, task)
    ff.clock.advance(LEASE)
    await ff.store.apply(MarkLeaseExpired(execution_id=task.execution_id))
    task = await ff.claim_one()
    await _wait_for_go(ff, task)
    task = await ff.claim_one()
    await ff.store.apply(SetTags(execution_id=task.execution_id, tags=(("b", "2"),)))
    await ff.complete(task, b"out")
    return task.execution_id


async def test_purge_leaves_nothing_behind(ff: Driver) -> None:
    await ff.seed()
    await ff.running(lane_id="other")
    before = await ff.store.dump()
    execution_id = await _full_life(ff)
    during = await ff.store.dump()
    assert execution_id in repr(during)
    ff.clock.advance(DAY_MS)
    await ff.store.apply(Purge(execution_id=execution_id))
    ff.clock.advance(DAY_MS)
    await ff.store.collect()
    after = await ff.store.dump()
    assert execution_id not in repr(after)
    before.records.pop("worker", None)
    after.records.pop("worker", None)
    assert {kind: rows for kind, rows in after.records.items() if rows} == {
        kind: rows for kind, rows in before.records.items() if rows
    }
    assert after.indexes == before.indexes
    assert (after.history, after.frames) == (before.history, before.frames)
    assert {key: n for key, n in after.counts.items() if n} == {
        key: n for key, n in before.counts.items() if n
    }


async def test_purged_execution_is_in_no_list(ff: Driver) -> None:
    scene = await scenes.completed(ff, tags=(("a", "1"),))
    ff.clock.advance(DAY_MS)
    await ff.store.apply(Purge(execution_id=scene.execution_id))
    for question in (ListExecutions(), ListExecutions(tags=(("a", "1"),)), ListExecutions(lane_id="default")):
        assert (await ff.store.read(question)).runs == ()
    assert (await ff.store.read(ReadDue())).entries == ()
    assert (await ff.store.repair(fix=False)).wrong == ()


async def test_purge_of_one_leaves_the_others(ff: Driver) -> None:
    scene = await scenes.completed(ff)
    other = await scenes.completed(ff, policy=kept(3 * DAY_MS))
    ff.clock.advance(DAY_MS)
    await ff.store.apply(Purge(execution_id=scene.execution_id))
    await ff.store.apply(Purge(execution_id=other.execution_id))
    view = await ff.store.read(GetResult(execution_id=other.execution_id))
    assert view.result
    assert view.result.data == b"done"


async def test_id_of_a_purged_execution_is_free_again(ff: Driver) -> None:
    scene = await scenes.completed(ff)
    ff.clock.advance(DAY_MS)
    await ff.store.apply(Purge(execution_id=scene.execution_id))
    await ff.create(execution_id=scene.execution_id)
    task = await ff.claim_one()
    assert (task.attempt_index, task.fence.lease_epoch, task.attempt_type) == (0, 1, "initial")
    assert await ff.events(scene.execution_id) == ["created", "claimed"]
