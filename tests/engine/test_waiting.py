"""Waiting on the caller's side: woken by events, leaving nothing behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.engine import claim_when_ready, tail_when_ready, wait_until_ended
from flowfabric.engine import waiting as engine_waiting
from flowfabric.engine.workers import bury
from flowfabric.model.command import Command
from flowfabric.model.operations.claim import Claim
from flowfabric.model.operations.stream import AppendFrames, FrameInput, TailStream
from flowfabric.model.operations.worker import Marked, MarkWorkerDead, NotRegistered
from support.driver import Driver, new_uuid

LONG = 30_000


def claim() -> Claim:
    return Claim(worker_id="w1", worker_instance_id="w1-a", lanes=("default",), mint=new_uuid())


async def settled() -> None:
    """Let every task that can run, run: a waiter has then looked and found nothing."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_waiting_claim_is_woken_by_a_submit(ff: Driver) -> None:
    waiting = asyncio.create_task(claim_when_ready(ff.store, claim(), LONG))
    await settled()
    execution_id = await ff.create()
    claimed = await waiting
    assert [task.execution_id for task in claimed.tasks] == [execution_id]


async def test_a_claim_without_waiting_answers_at_once(ff: Driver) -> None:
    assert (await claim_when_ready(ff.store, claim())).tasks == ()


async def test_a_wait_that_is_over_answers_empty(ff: Driver) -> None:
    assert (await claim_when_ready(ff.store, claim(), 1)).tasks == ()


async def test_a_claimer_that_goes_away_leaves_no_lease(ff: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    execution_id = await ff.create()
    asked, apply = asyncio.Event(), ff.store.apply

    async def noted(command: Command[Any]) -> Any:
        asked.set()
        return await apply(command)

    monkeypatch.setattr(ff.store, "apply", noted)
    waiting = asyncio.create_task(claim_when_ready(ff.store, claim(), LONG))
    await asked.wait()  # the claim is under way
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.gather(*engine_waiting._BACKGROUND)
    assert "released" in await ff.events(execution_id)
    task = await ff.claim_one()
    assert task.execution_id == execution_id
    assert (await ff.show(execution_id)).lease_reclaim_count == 0


@pytest.mark.parametrize("ends", [False, True])
async def test_a_tail_is_woken_by_a_frame_and_by_the_end(ff: Driver, ends: bool) -> None:
    task = await ff.running()
    send = AppendFrames(
        execution_id=task.execution_id, fence=task.fence, frames=(FrameInput(payload=b"one"),)
    )
    (first,) = await ff.store.apply(send)
    question = TailStream(execution_id=task.execution_id, attempt_index=0, after=first.entry_id)
    tailing = asyncio.create_task(tail_when_ready(ff.store, question, LONG))
    await settled()
    if ends:
        await ff.complete(task)
        page = await tailing
        assert (page.frames, page.closed_reason) == ((), "attempt_success")
    else:
        await ff.store.apply(send)
        page = await tailing
        assert [view.frame.payload for view in page.frames] == [b"one"]
        assert page.closed_at == 0


async def test_an_open_stream_without_news_answers_empty_when_the_time_is_over(ff: Driver) -> None:
    task = await ff.running()
    page = await tail_when_ready(ff.store, TailStream(execution_id=task.execution_id, attempt_index=0), 1)
    assert (page.frames, page.closed_at) == ((), 0)


async def test_waiting_for_the_end(ff: Driver) -> None:
    task = await ff.running()
    waiting = asyncio.create_task(wait_until_ended(ff.store, task.execution_id, LONG))
    await settled()
    await ff.complete(task)
    assert (await waiting).public_state == "completed"
    assert (await wait_until_ended(ff.store, task.execution_id)).public_state == "completed"


async def test_waiting_for_the_end_gives_up_in_time(ff: Driver) -> None:
    execution_id = await ff.create()
    assert (await wait_until_ended(ff.store, execution_id, 1)).public_state == "waiting"


async def test_a_buried_worker_loses_its_leases_at_once(ff: Driver) -> None:
    first = await ff.running()
    second = await ff.running()
    await ff.create()
    other = await ff.claim_one(worker_instance_id="w1-b")
    outcome, lost = await bury(ff.store, MarkWorkerDead(worker_instance_id="w1-a", actor="operator"))
    assert (outcome, lost) == (Marked(), 2)
    assert (await ff.show(other.execution_id)).ownership_state == "leased"
    again = await ff.claim(max_tasks=3, worker_instance_id="w2-a")
    assert {task.execution_id for task in again} == {first.execution_id, second.execution_id}
    assert {task.attempt_type for task in again} == {"reclaim"}
    assert await bury(ff.store, MarkWorkerDead(worker_instance_id="w1-a")) == (NotRegistered(), 0)
