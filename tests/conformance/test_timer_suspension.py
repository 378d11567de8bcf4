"""When the time of a suspension is over."""

from __future__ import annotations

import pytest

from flowfabric.model.conditions import timeout_only
from flowfabric.model.operations.read import ListAttempts
from flowfabric.model.operations.signal import ObserveSignals
from flowfabric.model.operations.stream import AppendFrames, FrameInput, ReadStream
from flowfabric.model.operations.timer import ExpireExecution, ExpireSuspension, Swept
from support.driver import Driver
from support.waiting import (
    RESUMED,
    RESUMED_LATER,
    SATISFIED,
    Wait,
    all_of,
    by_name,
    ended,
    held,
    open_waitpoints,
    refused,
    stored_waitpoint,
    suspend,
    suspended,
    tree,
)

TWO = tree(all_of(by_name("a", "go"), by_name("b", "go")))


async def sweep(ff: Driver, wait: Wait) -> Swept:
    return await ff.store.apply(ExpireSuspension(execution_id=wait.execution_id, actor="timer"))


@pytest.mark.parametrize(
    ("behavior", "outcome", "life"),
    [
        ("fail", "failed", "ended_failure"),
        ("cancel", "cancelled", "ended_cancelled"),
        ("expire", "expired", "ended_failure"),
    ],
)
async def test_it_may_end_the_execution(ff: Driver, behavior: str, outcome: str, life: str) -> None:
    await ff.seed()
    task = await ff.running()
    frame = AppendFrames(execution_id=task.execution_id, fence=task.fence, frames=(FrameInput(b"x"),))
    await ff.store.apply(frame)
    wait = await suspend(ff, task, TWO, timeout_ms=1_000, timeout_behavior=behavior)
    ff.clock.advance(1_000)
    assert await sweep(ff, wait) == Swept(behavior, outcome)
    assert await wait.vector() == ended(outcome)
    reason = f"suspension_timeout:{behavior}"
    run = await ff.show(task.execution_id)
    assert (run.failure_reason, run.completed_at, run.suspension_timeout_at) == (reason, ff.now, 0)
    (attempt,) = await ff.store.read(ListAttempts(execution_id=task.execution_id))
    assert (attempt.life, attempt.failure_reason, attempt.ended_at) == (life, reason, ff.now)
    stream = await ff.store.read(ReadStream(execution_id=task.execution_id, attempt_index=0))
    assert (stream.closed_reason, stream.closed_at) == ("suspension_timeout", ff.now)
    record = await wait.record()
    assert (record.close_reason, record.closed_at) == (f"timed_out_{behavior}", ff.now)
    assert await open_waitpoints(ff, task.execution_id) == ()
    for key in "ab":
        assert (await stored_waitpoint(ff, task.execution_id, wait.on(key).waitpoint_id)).state == "closed"
        await refused(ff, wait.delivery("go", key), "target_not_signalable")
    event = (await ff.history(task.execution_id))[-1]
    assert (event.event, event.actor, event.to_state) == (outcome, "timer", outcome)
    assert (await sweep(ff, wait)).outcome == "not_suspended_cleaned"


@pytest.mark.parametrize("behavior", ["auto_resume", "auto_resume_with_timeout_signal"])
async def test_it_may_resume(ff: Driver, behavior: str) -> None:
    wait = await suspended(
        ff, timeout_only(), timeout_ms=1_000, timeout_behavior=behavior, resume_delay_ms=5_000
    )
    ff.clock.advance(1_000)
    assert await sweep(ff, wait) == Swept("auto_resume", "waiting")
    assert await wait.vector() == RESUMED != RESUMED_LATER
    record = await wait.record()
    assert (record.close_reason, record.closed_at) == ("timed_out_auto_resume", ff.now)
    assert await open_waitpoints(ff, wait.execution_id) == ()
    assert (await ff.show(wait.execution_id)).signal_count == 0
    assert (await ff.events(wait.execution_id))[-1] == "resumed"
    task = await ff.claim_one()
    assert task.resume is not None
    assert (task.resume.reason, task.resume_signals, task.attempt_type) == ("timeout", (), "resumed")
    assert await ff.store.read(ObserveSignals(execution_id=wait.execution_id)) == ()


async def _escalated(ff: Driver) -> Wait:
    wait = await suspended(ff, timeout_ms=1_000, timeout_behavior="escalate")
    ff.clock.advance(1_000)
    assert await sweep(ff, wait) == Swept("escalate", "suspended")
    return wait


async def test_it_may_escalate(ff: Driver) -> None:
    wait = await _escalated(ff)
    assert await wait.vector() == held("paused_by_operator")
    record = await wait.record()
    assert (record.reason_code, record.timeout_at, record.closed_at) == ("waiting_for_operator_review", 0, 0)
    assert (await ff.show(wait.execution_id)).suspension_timeout_at == 0
    assert [view.state for view in await open_waitpoints(ff, wait.execution_id)] == ["active"]
    event = (await ff.history(wait.execution_id))[-1]
    assert (event.event, event.from_state, event.to_state) == ("escalated", "suspended", "suspended")
    before = await ff.store.dump()
    ff.clock.advance(10_000)
    assert (await sweep(ff, wait)).outcome == "not_yet_due"
    assert await ff.store.dump() == before


async def test_after_an_escalation_a_signal_still_resumes(ff: Driver) -> None:
    wait = await _escalated(ff)
    ff.clock.advance(5_000)
    assert await wait.signal() == SATISFIED
    assert await wait.vector() == RESUMED


async def test_after_an_escalation_an_operator_still_resumes(ff: Driver) -> None:
    wait = await _escalated(ff)
    assert await wait.resume() == "waiting"
    assert await wait.vector() == RESUMED


@pytest.mark.parametrize("behavior", ["fail", "cancel", "expire", "auto_resume", "escalate"])
async def test_before_its_time_nothing_happens(ff: Driver, behavior: str) -> None:
    wait = await suspended(ff, timeout_ms=1_000, timeout_behavior=behavior)
    ff.clock.advance(999)
    before = await ff.store.dump()
    assert (await sweep(ff, wait)).outcome == "not_yet_due"
    assert await ff.store.dump() == before
    assert await wait.signal() == SATISFIED


async def test_a_wait_without_a_timeout_is_never_due(ff: Driver) -> None:
    wait = await suspended(ff)
    ff.clock.advance(10**10)
    assert (await sweep(ff, wait)).outcome == "not_yet_due"
    assert await wait.vector() == held("waiting_for_signal")


async def test_only_the_timer_ends_a_wait(ff: Driver) -> None:
    wait = await suspended(ff, timeout_ms=1_000)
    ff.clock.advance(60_000)
    assert await wait.signal() == SATISFIED
    assert (await sweep(ff, wait)).outcome == "not_suspended_cleaned"


async def test_what_is_not_there_needs_no_sweep(ff: Driver) -> None:
    assert (await ff.store.apply(ExpireSuspension(execution_id=ff.new_id()))).outcome == "not_found_cleaned"
    task = await ff.running()
    before = await ff.store.dump()
    swept = await ff.store.apply(ExpireSuspension(execution_id=task.execution_id))
    assert swept.outcome == "not_suspended_cleaned"
    assert await ff.store.dump() == before


async def test_the_timeout_is_due_and_the_deadline_too(ff: Driver) -> None:
    wait = await suspended(
        ff, create={"execution_deadline_at": ff.now + 500}, timeout_ms=1_000, timeout_behavior="cancel"
    )
    ff.clock.advance(1_000)
    assert (await sweep(ff, wait)).outcome == "cancel"
    await ff.store.apply(ExpireExecution(execution_id=wait.execution_id, reason="execution_deadline"))
    assert await wait.vector() == ended("cancelled")
