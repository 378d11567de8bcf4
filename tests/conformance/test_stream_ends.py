"""How a stream ends: each end of an attempt has its word for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.finish import Cancel, Delay
from flowfabric.model.operations.lease import RevokeLease
from flowfabric.model.operations.timer import ExpireExecution, LoseDeadLease, MarkLeaseExpired, PromoteDelayed
from support.driver import LEASE, Driver
from support.frames import append, payloads, read, tail
from support.waiting import let_go, suspend

End = Callable[[Driver, Task], Awaitable[object]]


async def complete(ff: Driver, task: Task) -> None:
    await ff.complete(task)


async def retry(ff: Driver, task: Task) -> None:
    await ff.fail(task)


async def fail_for_good(ff: Driver, task: Task) -> None:
    await ff.fail(task, category="permanent")


async def cancel(ff: Driver, task: Task) -> None:
    await ff.store.apply(Cancel(execution_id=task.execution_id, source="operator_override"))


async def cancel_suspended(ff: Driver, task: Task) -> None:
    await suspend(ff, task)
    await cancel(ff, task)


async def cancel_delayed(ff: Driver, task: Task) -> None:
    await ff.store.apply(Delay(execution_id=task.execution_id, fence=task.fence, delay_until=ff.now + 9))
    await cancel(ff, task)


async def expire_lease(ff: Driver, task: Task) -> None:
    ff.clock.advance(LEASE)
    await ff.store.apply(MarkLeaseExpired(execution_id=task.execution_id))


async def lose_worker(ff: Driver, task: Task) -> None:
    command = LoseDeadLease(execution_id=task.execution_id, worker_instance_id=task.worker_instance_id)
    await ff.store.apply(command)


async def reclaim(ff: Driver, task: Task) -> None:
    await expire_lease(ff, task)
    await ff.claim_one()


async def reclaim_revoked(ff: Driver, task: Task) -> None:
    await ff.store.apply(RevokeLease(execution_id=task.execution_id))
    await ff.claim_one()


async def time_out(ff: Driver, task: Task) -> None:
    ff.clock.advance(10_000)
    await ff.store.apply(ExpireExecution(execution_id=task.execution_id))


async def time_out_for_good(ff: Driver, task: Task) -> None:
    await retry(ff, task)
    again = await _next(ff, task)
    await append(ff, again, b"x")
    await time_out(ff, again)


async def pass_deadline(ff: Driver, task: Task) -> None:
    ff.clock.advance(20_000)
    await ff.store.apply(ExpireExecution(execution_id=task.execution_id, reason="execution_deadline"))


async def pass_deadline_suspended(ff: Driver, task: Task) -> None:
    await suspend(ff, task)
    await pass_deadline(ff, task)


async def _next(ff: Driver, task: Task) -> Task:
    ff.clock.advance(1_000)
    await ff.store.apply(PromoteDelayed(execution_id=task.execution_id))
    return await ff.claim_one()


ENDS: list[tuple[End, str, int]] = [
    (complete, "attempt_success", 0),
    (retry, "attempt_failure", 0),
    (fail_for_good, "attempt_failure", 0),
    (cancel, "attempt_cancelled", 0),
    (cancel_suspended, "attempt_cancelled", 0),
    (cancel_delayed, "attempt_cancelled", 0),
    (expire_lease, "lease_expired", 0),
    (let_go, "lease_expired", 0),
    (lose_worker, "lease_expired", 0),
    (reclaim, "reclaimed", 0),
    (reclaim_revoked, "reclaimed", 0),
    (time_out, "attempt_failure", 0),
    (time_out_for_good, "expired", 1),
    (pass_deadline, "expired", 0),
    (pass_deadline_suspended, "expired", 0),
]


@pytest.mark.parametrize(
    ("end", "reason", "index"), ENDS, ids=[getattr(row[0], "__name__", "end") for row in ENDS]
)
async def test_the_end_of_an_attempt_closes_its_stream(ff: Driver, end: End, reason: str, index: int) -> None:
    await ff.seed()
    task = await ff.running(
        policy={"retry_policy": {"max_retries": 1}, "timeout_policy": {"attempt_timeout_ms": 10_000}},
        execution_deadline_at=ff.now + 20_000,
    )
    await append(ff, task, b"x")
    assert (await read(ff, task)).closed_reason == ""
    await end(ff, task)
    for question in (read, tail):
        page = await question(ff, task, attempt_index=index)
        assert (page.closed_reason, page.closed_at) == (reason, ff.now)
        assert payloads(page) == [b"x"]


async def test_a_revoked_lease_leaves_the_stream_open(ff: Driver) -> None:
    task = await ff.running()
    await append(ff, task, b"x")
    await ff.store.apply(RevokeLease(execution_id=task.execution_id))
    assert (await read(ff, task)).closed_reason == ""


async def test_a_rest_leaves_the_stream_open(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    await append(ff, task, b"x")
    wait = await suspend(ff, task)
    assert (await read(ff, task)).closed_reason == ""
    await wait.signal()
    again = await ff.claim_one()
    await ff.store.apply(Delay(execution_id=task.execution_id, fence=again.fence, delay_until=ff.now + 9))
    assert (await read(ff, task)).closed_reason == ""


async def test_a_drained_tail_of_a_closed_stream_still_tells(ff: Driver) -> None:
    task = await ff.running()
    (one,) = await append(ff, task, b"x")
    await ff.complete(task)
    page = await tail(ff, task, one.entry_id)
    assert (page.frames, page.closed_reason, page.closed_at) == ((), "attempt_success", ff.now)


async def test_a_stream_closes_once(ff: Driver) -> None:
    task = await ff.running()
    await append(ff, task, b"x")
    await expire_lease(ff, task)
    at = ff.now
    ff.clock.advance(5)
    await cancel(ff, task)
    page = await read(ff, task)
    assert (page.closed_reason, page.closed_at) == ("lease_expired", at)
