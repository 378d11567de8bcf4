"""What time does: promotion, attempt timeouts, deadlines, and the list of what is due."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model.limits import DAY_MS
from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.finish import Delay, WaitChildren
from flowfabric.model.operations.lease import Renew, RevokeLease
from flowfabric.model.operations.operate import Pause
from flowfabric.model.operations.read import ListAttempts
from flowfabric.model.operations.stream import ReadStream
from flowfabric.model.operations.suspend_resume import GetSuspension, ResumeExecution
from flowfabric.model.operations.suspend_waitpoint import ListWaitpoints
from flowfabric.model.operations.timer import (
    DuePage,
    ExpireExecution,
    MarkLeaseExpired,
    PromoteDelayed,
    Purge,
    ReadDue,
    Swept,
)
from support import scenes
from support.driver import LEASE, Driver
from support.expect import refuses, untouched
from support.holders import append
from support.scenes import RETRIES, Scene, suspend

TIMEOUT = 10_000
TIMED = {"timeout_policy": {"attempt_timeout_ms": TIMEOUT}}


async def time_out(ff: Driver, execution_id: str, reason: str = "attempt_timeout") -> Swept:
    return await ff.store.apply(ExpireExecution(execution_id=execution_id, reason=reason, actor="timer"))


async def pass_deadline(ff: Driver, execution_id: str) -> Swept:
    return await time_out(ff, execution_id, "execution_deadline")


@pytest.mark.parametrize("name", ["delayed", "backoff", "worker_delayed", "resume_delayed"])
async def test_promotion_when_the_time_has_come(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff)
    before = await ff.show(scene.execution_id)
    ff.clock.now = before.delay_until - 1
    async with untouched(ff):
        early = await ff.store.apply(PromoteDelayed(execution_id=scene.execution_id))
    assert early.outcome == "not_yet_due"
    ff.clock.advance(1)
    assert await ff.store.apply(PromoteDelayed(execution_id=scene.execution_id)) == Swept(
        "promoted", "waiting"
    )
    assert await ff.vector(scene.execution_id) == (
        "runnable",
        "unowned",
        "eligible_now",
        "waiting_for_worker",
        "none",
        before.attempt_state,
        "waiting",
    )
    assert (await ff.show(scene.execution_id)).delay_until == 0
    last = (await ff.history(scene.execution_id))[-1]
    assert (last.event, last.from_state, last.to_state) == ("promoted", "delayed", "waiting")


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("waiting", "not_delayed_cleaned"),
        ("paused", "not_delayed_cleaned"),
        ("quota_blocked", "not_delayed_cleaned"),
        ("active", "not_runnable_cleaned"),
        ("suspended", "not_runnable_cleaned"),
        ("completed", "not_runnable_cleaned"),
    ],
)
async def test_only_delayed_work_is_promoted(ff: Driver, name: str, outcome: str) -> None:
    scene = await scenes.STAGES[name](ff)
    async with untouched(ff):
        answer = await ff.store.apply(PromoteDelayed(execution_id=scene.execution_id))
    assert answer.outcome == outcome


async def test_unknown_executions_are_no_trouble_to_timers(ff: Driver) -> None:
    execution_id = ff.new_id()
    async with untouched(ff):
        assert (
            await ff.store.apply(PromoteDelayed(execution_id=execution_id))
        ).outcome == "not_found_cleaned"
        assert (await time_out(ff, execution_id)).outcome == "not_found_cleaned"
        assert (await pass_deadline(ff, execution_id)).outcome == "not_found_cleaned"
        await ff.store.apply(Purge(execution_id=execution_id))


async def test_paused_work_is_not_promoted_by_its_delay(ff: Driver) -> None:
    scene = await scenes.delayed(ff)
    await ff.store.apply(Pause(execution_id=scene.execution_id))
    ff.clock.advance(60_000)
    async with untouched(ff):
        await ff.store.apply(PromoteDelayed(execution_id=scene.execution_id))


async def timed(ff: Driver, **policy: Any) -> Task:
    await ff.create(policy=TIMED | policy)
    return await ff.claim_one(lease_ttl_ms=3_600_000)


async def test_attempt_times_out_into_a_retry(ff: Driver) -> None:
    task = await timed(ff, **RETRIES)
    await ff.store.apply(append(task.execution_id, task.fence))
    assert task.attempt_deadline_at == ff.now + TIMEOUT
    ff.clock.advance(TIMEOUT - 1)
    async with untouched(ff):
        assert (await time_out(ff, task.execution_id)).outcome == "not_yet_due"
    ff.clock.advance(1)
    assert (await time_out(ff, task.execution_id)).public_state == "delayed"
    assert await ff.vector(task.execution_id) == (
        "runnable",
        "unowned",
        "not_eligible_until_time",
        "waiting_for_retry_backoff",
        "none",
        "pending_retry_attempt",
        "delayed",
    )
    run = await ff.show(task.execution_id)
    assert (run.failure_reason, run.failure_category) == ("attempt_timeout", "timeout")
    assert (run.delay_until, run.retry_count, run.attempt_deadline_at) == (ff.now + 1_000, 1, 0)
    (attempt,) = await ff.store.read(ListAttempts(execution_id=task.execution_id))
    assert (attempt.life, attempt.failure_reason, attempt.failure_category, attempt.ended_at) == (
        "ended_failure",
        "attempt_timeout",
        "timeout",
        ff.now,
    )
    stream = await ff.store.read(ReadStream(execution_id=task.execution_id, attempt_index=0))
    assert stream.closed_reason == "attempt_failure"
    last = (await ff.history(task.execution_id))[-1]
    assert (last.event, last.reason, last.actor) == ("retry_scheduled", "attempt_timeout", "timer")
    late = Renew(execution_id=task.execution_id, fence=task.fence)
    await refuses(ff, late, "execution_not_active", "none", "1", "runnable", "")
    ff.clock.advance(1_000)
    await ff.store.apply(PromoteDelayed(execution_id=task.execution_id))
    assert (await ff.claim_one()).attempt_deadline_at == ff.now + TIMEOUT


@pytest.mark.parametrize(
    "policy",
    [
        {},
        {"retry_policy": {"max_retries": 0}},
        {"retry_policy": {"retryable_categories": ["transient"]}},
    ],
)
async def test_attempt_times_out_for_good(ff: Driver, policy: dict[str, Any]) -> None:
    task = await timed(ff, **policy)
    await ff.store.apply(append(task.execution_id, task.fence))
    ff.clock.advance(TIMEOUT)
    assert await time_out(ff, task.execution_id) == Swept("expired", "expired")
    assert await ff.vector(task.execution_id) == (
        "terminal",
        "unowned",
        "not_applicable",
        "none",
        "expired",
        "attempt_terminal",
        "expired",
    )
    run = await ff.show(task.execution_id)
    assert (run.failure_reason, run.completed_at) == ("attempt_timeout", ff.now)
    (attempt,) = await ff.store.read(ListAttempts(execution_id=task.execution_id))
    assert (attempt.life, attempt.failure_reason) == ("ended_failure", "attempt_timeout")
    stream = await ff.store.read(ReadStream(execution_id=task.execution_id, attempt_index=0))
    assert stream.closed_reason == "expired"
    async with untouched(ff):
        assert (await time_out(ff, task.execution_id)).outcome == "already_terminal"


async def test_timeouts_are_retried_where_the_policy_names_them(ff: Driver) -> None:
    task = await timed(ff, retry_policy={"retryable_categories": ["timeout"]})
    ff.clock.advance(TIMEOUT)
    await time_out(ff, task.execution_id)
    assert (await ff.show(task.execution_id)).public_state == "delayed"


@pytest.mark.parametrize("how", ["expired", "revoked"])
async def test_timeout_keeps_running_when_the_lease_is_lost(ff: Driver, how: str) -> None:
    await ff.create(policy=TIMED)
    task = await ff.claim_one(lease_ttl_ms=4_000)
    deadline = task.attempt_deadline_at
    ff.clock.advance(4_000)
    if how == "expired":
        await ff.store.apply(MarkLeaseExpired(execution_id=task.execution_id))
    else:
        await ff.store.apply(RevokeLease(execution_id=task.execution_id))
    assert (await ff.show(task.execution_id)).attempt_deadline_at == deadline
    ff.clock.now = deadline - 1
    assert (await time_out(ff, task.execution_id)).outcome == "not_yet_due"
    ff.clock.advance(1)
    assert (await time_out(ff, task.execution_id)).outcome == "expired"


async def test_reclaim_starts_the_timeout_anew(ff: Driver) -> None:
    await ff.create(policy=TIMED)
    task = await ff.claim_one(lease_ttl_ms=4_000)
    ff.clock.advance(4_000)
    await ff.store.apply(MarkLeaseExpired(execution_id=task.execution_id))
    again = await ff.claim_one()
    assert again.attempt_deadline_at == ff.now + TIMEOUT
    ff.clock.advance(TIMEOUT - 1)
    assert (await time_out(ff, task.execution_id)).outcome == "not_yet_due"


@pytest.mark.parametrize("rest", ["delay", "wait_children", "suspend"])
async def test_timeout_stands_still_while_the_attempt_rests(ff: Driver, rest: str) -> None:
    await ff.seed()
    task = await timed(ff)
    ff.clock.advance(4_000)
    fields: dict[str, Any] = {"execution_id": task.execution_id, "fence": task.fence}
    if rest == "delay":
        await ff.store.apply(Delay(delay_until=ff.now + DAY_MS, **fields))
    elif rest == "wait_children":
        await ff.store.apply(WaitChildren(**fields))
    else:
        await ff.store.apply(suspend(task))
    run = await ff.show(task.execution_id)
    assert (run.attempt_deadline_at, run.attempt_timeout_remaining_ms) == (0, 6_000)
    ff.clock.advance(DAY_MS)
    async with untouched(ff):
        await time_out(ff, task.execution_id)
    if rest == "delay":
        await ff.store.apply(PromoteDelayed(execution_id=task.execution_id))
    elif rest == "suspend":
        await ff.store.apply(ResumeExecution(execution_id=task.execution_id))
    again = await ff.claim_one(lease_ttl_ms=3_600_000)
    assert (again.attempt_type, again.attempt_deadline_at) == ("resumed", ff.now + 6_000)
    ff.clock.advance(6_000)
    assert (await time_out(ff, task.execution_id)).outcome == "expired"


async def test_attempt_that_rests_after_its_time_still_times_out(ff: Driver) -> None:
    task = await timed(ff)
    ff.clock.advance(TIMEOUT + 1)
    await ff.store.apply(Delay(execution_id=task.execution_id, fence=task.fence, delay_until=0))
    await ff.claim_one(lease_ttl_ms=3_600_000)
    ff.clock.advance(TIMEOUT)
    assert (await time_out(ff, task.execution_id)).outcome == "expired"


async def test_execution_without_a_timeout_never_times_out(ff: Driver) -> None:
    task = await ff.running()
    ff.clock.advance(100 * DAY_MS)
    async with untouched(ff):
        await time_out(ff, task.execution_id)
        await pass_deadline(ff, task.execution_id)


@pytest.mark.parametrize("name", scenes.LIVE)
async def test_deadline_ends_whatever_has_not_ended(ff: Driver, name: str) -> None:
    deadline = ff.now + DAY_MS
    scene = await scenes.STAGES[name](ff, execution_deadline_at=deadline, policy=RETRIES)
    ff.clock.now = deadline - 1
    async with untouched(ff):
        assert (await pass_deadline(ff, scene.execution_id)).outcome == "not_yet_due"
    ff.clock.advance(1)
    assert await pass_deadline(ff, scene.execution_id) == Swept("expired", "expired")
    assert await ff.vector(scene.execution_id) == (
        "terminal",
        "unowned",
        "not_applicable",
        "none",
        "expired",
        "attempt_terminal" if scene.task else "pending_first_attempt",
        "expired",
    )
    run = await ff.show(scene.execution_id)
    assert (run.failure_reason, run.completed_at) == ("execution_deadline", ff.now)
    for attempt in await ff.store.read(ListAttempts(execution_id=scene.execution_id)):
        reason = "boom" if name in {"backoff", "retryable"} else "execution_deadline"
        assert (attempt.life, attempt.failure_reason) == ("ended_failure", reason)
    last = (await ff.history(scene.execution_id))[-1]
    assert (last.event, last.reason, last.actor) == ("expired", "execution_deadline", "timer")
    assert await ff.claim(max_tasks=5) == ()


async def test_deadline_closes_the_suspension(ff: Driver) -> None:
    scene = await scenes.suspended(ff, execution_deadline_at=ff.now + 10)
    ff.clock.advance(10)
    await pass_deadline(ff, scene.execution_id)
    suspension = await ff.store.read(GetSuspension(execution_id=scene.execution_id))
    assert suspension
    assert (suspension.close_reason, suspension.closed_at) == ("expired:execution_deadline", ff.now)
    assert (await ff.store.read(ListWaitpoints(execution_id=scene.execution_id))).waitpoints == ()


@pytest.mark.parametrize("name", scenes.ENDED)
async def test_deadline_leaves_the_ended_alone(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff, execution_deadline_at=ff.now + 1_000)
    ff.clock.advance(DAY_MS)
    async with untouched(ff):
        assert (await pass_deadline(ff, scene.execution_id)).outcome == "already_terminal"


async def test_only_known_reasons_expire(ff: Driver) -> None:
    task = await ff.running()
    await refuses(ff, ExpireExecution(execution_id=task.execution_id, reason="mood"), "invalid_input")


async def due(ff: Driver, before: int | None = None, **fields: Any) -> DuePage:
    return await ff.store.read(ReadDue(before=before, **fields))


@pytest.mark.parametrize(
    ("name", "fields", "after"),
    [
        ("delayed", {}, 60_000),
        ("delayed", {"execution_deadline_at": 50_000}, 50_000),
        ("waiting", {"execution_deadline_at": 50_000}, 50_000),
        ("paused", {"execution_deadline_at": 50_000}, 50_000),
        ("backoff", {}, 1_000),
        ("worker_delayed", {}, 60_000),
        ("worker_delayed", {"policy": TIMED}, 60_000),
        ("resume_delayed", {}, 60_000),
        ("active", {}, LEASE),
        ("active", {"policy": TIMED}, TIMEOUT),
        ("active", {"execution_deadline_at": 5_000, "policy": TIMED}, 5_000),
        ("lease_revoked", {"policy": TIMED}, TIMEOUT),
        ("lease_released", {"execution_deadline_at": 5_000}, 5_000),
        ("suspended", {"execution_deadline_at": 5_000, "policy": TIMED}, 5_000),
        ("completed", {"execution_deadline_at": 5_000}, DAY_MS),
        ("failed", {"policy": {"stream_policy": {"retention_ttl_ms": 300}}}, 300),
        ("cancelled", {"policy": {"stream_policy": {"retention_ttl_ms": 3 * DAY_MS}}}, 3 * DAY_MS),
    ],
)
async def test_due_names_the_earliest_deadline_of_an_execution(
    ff: Driver, name: str, fields: dict[str, Any], after: int
) -> None:
    if "execution_deadline_at" in fields:
        fields = fields | {"execution_deadline_at": ff.now + fields["execution_deadline_at"]}
    at = ff.now + after
    scene = await scenes.STAGES[name](ff, **fields)
    early = await due(ff, at - 1)
    assert (early.entries, early.next_due_at) == ((), at)
    late = await due(ff, at)
    assert ([entry.key[0] for entry in late.entries], late.next_due_at) == ([scene.execution_id], 0)
    ff.clock.now = at
    assert (await due(ff)).entries == late.entries


@pytest.mark.parametrize(
    "name", ["waiting", "interrupted", "paused", "lease_expired", "lease_revoked", "suspended"]
)
async def test_nothing_is_due_without_a_deadline(ff: Driver, name: str) -> None:
    await scenes.STAGES[name](ff)
    assert await due(ff, ff.now + 10 * DAY_MS) == DuePage((), 0)


async def test_renewal_moves_what_is_due(ff: Driver) -> None:
    task = await ff.running()
    ff.clock.advance(1_000)
    await ff.store.apply(Renew(execution_id=task.execution_id, fence=task.fence, lease_ttl_ms=LEASE))
    assert await due(ff, ff.now + LEASE - 1) == DuePage((), ff.now + LEASE)


async def test_due_comes_in_order_and_in_pages(ff: Driver) -> None:
    start = ff.now
    made = {ms: await ff.create(delay_until=start + ms) for ms in (50, 10, 40, 20, 30)}
    page = await due(ff, start + 30)
    assert [entry.key[0] for entry in page.entries] == [made[10], made[20], made[30]]
    assert page.next_due_at == start + 40
    assert [entry.key[0] for entry in (await due(ff, start + 50, limit=2)).entries] == [made[10], made[20]]


async def test_acting_on_what_is_due_leaves_nothing_due(ff: Driver) -> None:
    staged: list[Scene] = [await scenes.active(ff), await scenes.delayed(ff), await scenes.backoff(ff)]
    ff.clock.advance(60_000)
    assert {entry.key[0] for entry in (await due(ff)).entries} == {scene.execution_id for scene in staged}
    for scene in staged:
        await ff.store.apply(MarkLeaseExpired(execution_id=scene.execution_id))
        await ff.store.apply(PromoteDelayed(execution_id=scene.execution_id))
    assert await due(ff) == DuePage((), 0)
