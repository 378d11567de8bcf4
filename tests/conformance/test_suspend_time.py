"""Which clocks run while an execution is suspended."""

from __future__ import annotations

from flowfabric.model.operations.timer import ExpireExecution
from support.driver import Driver
from support.waiting import ended, held, open_waitpoints, refused, suspend, suspended


async def test_the_attempts_time_stops_while_suspended(ff: Driver) -> None:
    wait = await suspended(ff, create={"policy": {"timeout_policy": {"attempt_timeout_ms": 10_000}}})
    run = await ff.show(wait.execution_id)
    assert (run.attempt_deadline_at, run.attempt_timeout_remaining_ms) == (0, 10_000)
    ff.clock.advance(60_000)
    await ff.store.apply(ExpireExecution(execution_id=wait.execution_id))
    assert await wait.vector() == held("waiting_for_signal")
    await wait.signal()
    task = await ff.claim_one()
    assert task.attempt_deadline_at == ff.now + 10_000


async def test_what_was_used_of_the_attempts_time_stays_used(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running(policy={"timeout_policy": {"attempt_timeout_ms": 10_000}})
    ff.clock.advance(4_000)
    wait = await suspend(ff, task)
    ff.clock.advance(100_000)
    await wait.signal()
    ff.clock.advance(100_000)
    resumed = await ff.claim_one()
    assert resumed.attempt_deadline_at == ff.now + 6_000
    ff.clock.advance(6_000)
    await ff.store.apply(ExpireExecution(execution_id=wait.execution_id))
    assert await wait.vector() == ended("expired")


async def test_the_deadline_runs_on_while_suspended(ff: Driver) -> None:
    wait = await suspended(ff, create={"execution_deadline_at": ff.now + 9_000})
    ff.clock.advance(9_000)
    await ff.store.apply(ExpireExecution(execution_id=wait.execution_id, reason="execution_deadline"))
    assert await wait.vector() == ended("expired")
    record = await wait.record()
    assert (record.close_reason, record.closed_at) == ("expired:execution_deadline", ff.now)
    assert await open_waitpoints(ff, wait.execution_id) == ()
    await refused(ff, wait.delivery(), "target_not_signalable")


async def test_an_attempt_whose_time_was_over_does_not_get_more_by_waiting(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running(policy={"timeout_policy": {"attempt_timeout_ms": 10_000}})
    ff.clock.advance(12_000)
    wait = await suspend(ff, task)
    await wait.signal()
    await ff.claim_one()
    ff.clock.advance(1)
    await ff.store.apply(ExpireExecution(execution_id=task.execution_id))
    assert await wait.vector() == ended("expired")
