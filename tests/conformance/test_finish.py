"""Ending and handing back: complete, cancel, delay, wait for children, and calls whose reply was lost."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model import limits
from flowfabric.model.command import NO_FENCE, Fence
from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.finish import (
    Cancel,
    Cancelled,
    Complete,
    Completed,
    Delay,
    Delayed,
    Fail,
    Moved,
    RetryScheduled,
    TerminalFailed,
    WaitChildren,
)
from flowfabric.model.operations.operate import Replay
from flowfabric.model.operations.read import GetResult, ListAttempts
from flowfabric.model.operations.stream import ReadStream
from flowfabric.model.operations.suspend_resume import GetSuspension
from flowfabric.model.operations.suspend_waitpoint import ListWaitpoints
from flowfabric.model.operations.timer import MarkLeaseExpired, PromoteDelayed
from flowfabric.model.state import Public
from support import scenes
from support.driver import LEASE, Driver, new_uuid
from support.expect import refuses, untouched
from support.holders import EVERY, append

W2: dict[str, Any] = {"worker_id": "w2", "worker_instance_id": "w2-a"}


async def result(ff: Driver, execution_id: str, **fields: Any) -> bytes | None:
    view = await ff.store.read(GetResult(execution_id=execution_id, **fields))
    return view.result.data if view.result else None


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"plain", id="text"),
        pytest.param(bytes(range(256)), id="every byte"),
        pytest.param(b"\x00\xff" * (limits.MAX_RESULT_BYTES // 2), id="largest"),
    ],
)
async def test_completion_keeps_its_result_byte_for_byte(ff: Driver, data: bytes) -> None:
    task = await ff.running()
    ff.clock.advance(10)
    answer = await ff.complete(task, data, result_encoding="raw")
    assert answer == Completed(task.execution_id, Public.COMPLETED)
    view = await ff.store.read(GetResult(execution_id=task.execution_id))
    assert view.result
    assert (view.public_state, view.result.data, view.result.encoding) == ("completed", data, "raw")


async def test_completion_ends_attempt_lease_and_stream(ff: Driver) -> None:
    task = await ff.running()
    await ff.store.apply(append(task.execution_id, task.fence))
    ff.clock.advance(10)
    await ff.complete(task)
    run = await ff.show(task.execution_id)
    assert (run.completed_at, run.current_lease_epoch) == (ff.now, 1)
    assert (run.current_lease_id, run.current_worker_instance_id, run.lease_expires_at) == ("", "", 0)
    (attempt,) = await ff.store.read(ListAttempts(execution_id=task.execution_id))
    assert (attempt.life, attempt.ended_at) == ("ended_success", ff.now)
    stream = await ff.store.read(ReadStream(execution_id=task.execution_id, attempt_index=0))
    assert (stream.closed_at, stream.closed_reason) == (ff.now, "attempt_success")


@pytest.mark.parametrize("data", [None, b""])
async def test_completion_without_a_result(ff: Driver, data: bytes | None) -> None:
    task = await ff.running()
    await ff.complete(task, data)
    assert not await result(ff, task.execution_id)
    assert (await ff.show(task.execution_id)).public_state == "completed"


async def test_result_has_a_limit(ff: Driver) -> None:
    task = await ff.running()
    command = Complete(
        execution_id=task.execution_id, fence=task.fence, result=b"x" * (limits.MAX_RESULT_BYTES + 1)
    )
    await refuses(ff, command, "payload_too_large", field="result")


@pytest.mark.parametrize("name", ["waiting", "active", "suspended", "failed", "cancelled"])
async def test_there_is_no_result_before_success(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff)
    assert await result(ff, scene.execution_id) is None


@pytest.mark.parametrize(
    "source", ["operator_override", "operator", "flow_cascade", "system_timeout", "token-a"]
)
@pytest.mark.parametrize("name", scenes.LIVE)
async def test_operators_cancel_whatever_has_not_ended(ff: Driver, name: str, source: str) -> None:
    scene = await scenes.STAGES[name](ff)
    ff.clock.advance(10)
    command = Cancel(execution_id=scene.execution_id, source=source, reason="enough")
    assert await ff.store.apply(command) == Cancelled(scene.execution_id)
    started = scene.task is not None
    assert await ff.vector(scene.execution_id) == (
        "terminal",
        "unowned",
        "not_applicable",
        "none",
        "cancelled",
        "attempt_terminal" if started else "pending_first_attempt",
        "cancelled",
    )
    run = await ff.show(scene.execution_id)
    assert (run.cancellation_reason, run.cancelled_by, run.completed_at) == ("enough", source, ff.now)
    assert (run.current_lease_id, run.current_worker_id, run.delay_until) == ("", "", 0)
    last = (await ff.history(scene.execution_id))[-1]
    assert (last.event, last.reason, last.to_state) == ("cancelled", "enough", "cancelled")
    for attempt in await ff.store.read(ListAttempts(execution_id=scene.execution_id)):
        if name in {"backoff", "retryable"}:
            assert attempt.life == "ended_failure"
        else:
            assert (attempt.life, attempt.failure_reason) == ("ended_cancelled", "cancelled: enough")
    assert await ff.claim(max_tasks=5) == ()


async def test_nameless_cancel_is_by_the_execution_itself(ff: Driver) -> None:
    execution_id = await ff.create()
    await ff.store.apply(Cancel(execution_id=execution_id, source=""))
    assert (await ff.show(execution_id)).cancelled_by == execution_id


async def test_cancel_closes_the_suspension_and_its_waitpoints(ff: Driver) -> None:
    scene = await scenes.suspended(ff)
    await ff.store.apply(Cancel(execution_id=scene.execution_id, source="operator"))
    suspension = await ff.store.read(GetSuspension(execution_id=scene.execution_id))
    assert suspension
    assert (suspension.close_reason, suspension.closed_at) == ("cancelled", ff.now)
    assert (await ff.store.read(ListWaitpoints(execution_id=scene.execution_id))).waitpoints == ()


@pytest.mark.parametrize("name", ["active", "worker_delayed", "suspended"])
async def test_cancel_closes_the_stream(ff: Driver, name: str) -> None:
    if name == "suspended":
        await ff.seed()
    task = await ff.running()
    await ff.store.apply(append(task.execution_id, task.fence))
    if name == "worker_delayed":
        await ff.store.apply(EVERY["delay"](task.execution_id, task.fence))
    elif name == "suspended":
        await ff.store.apply(scenes.suspend(task))
    await ff.store.apply(Cancel(execution_id=task.execution_id, source="operator"))
    stream = await ff.store.read(ReadStream(execution_id=task.execution_id, attempt_index=0))
    assert stream.closed_reason == "attempt_cancelled"


@pytest.mark.parametrize(
    ("name", "outcome"),
    [("completed", "success"), ("failed", "failed"), ("cancelled", "cancelled"), ("expired", "expired")],
)
async def test_ended_execution_cannot_be_cancelled(ff: Driver, name: str, outcome: str) -> None:
    scene = await scenes.STAGES[name](ff)
    command = Cancel(execution_id=scene.execution_id, source="operator")
    details = (outcome, "1", "terminal", scene.fence.attempt_id)
    await refuses(ff, command, "execution_not_active", *details)


@pytest.mark.parametrize("source", ["worker", "lease_holder"])
async def test_holder_cancels_with_its_fence(ff: Driver, source: str) -> None:
    task = await ff.running()
    command = Cancel(execution_id=task.execution_id, source=source)
    await refuses(ff, command, "fence_required")
    holder = Cancel(execution_id=task.execution_id, source=source, fence=task.fence)
    assert await ff.store.apply(holder) == Cancelled(task.execution_id)


def delay(task: Task, until: int) -> Delay:
    return Delay(execution_id=task.execution_id, fence=task.fence, delay_until=until)


@pytest.mark.parametrize(
    ("ms", "state"), [(1, "delayed"), (60_000, "delayed"), (0, "waiting"), (-5, "waiting")]
)
async def test_delayed_attempt_goes_on_later_or_at_once(ff: Driver, ms: int, state: str) -> None:
    task = await ff.running()
    ff.clock.advance(100)
    assert await ff.store.apply(delay(task, ff.now + ms)) == Delayed(task.execution_id, Public(state))
    later = ("not_eligible_until_time", "waiting_for_delay")
    now = ("eligible_now", "waiting_for_worker")
    assert await ff.vector(task.execution_id) == (
        "runnable",
        "unowned",
        *(later if ms > 0 else now),
        "none",
        "attempt_interrupted",
        state,
    )
    run = await ff.show(task.execution_id)
    assert (run.current_lease_id, run.current_worker_id, run.lease_expires_at) == ("", "", 0)
    assert (run.current_lease_epoch, run.delay_until) == (1, ff.now + ms if ms > 0 else 0)
    (attempt,) = await ff.store.read(ListAttempts(execution_id=task.execution_id))
    assert (attempt.life, attempt.suspension_id, attempt.suspended_at) == (
        "suspended",
        "worker_delay",
        ff.now,
    )
    ff.clock.advance(max(ms, 0))
    await ff.store.apply(PromoteDelayed(execution_id=task.execution_id))
    again = await ff.claim_one(**W2)
    assert (again.attempt_type, again.attempt_index, again.attempt_id) == ("resumed", 0, task.attempt_id)
    assert (again.fence.lease_epoch, (await ff.show(task.execution_id)).total_attempt_count) == (2, 1)
    (attempt,) = await ff.store.read(ListAttempts(execution_id=task.execution_id))
    assert (attempt.life, attempt.resumed_at, attempt.suspension_id) == ("started", ff.now, "")
    assert attempt.worker_id == "w2"


@pytest.mark.parametrize("until", [-1, 2**53, 1.5])
async def test_bad_delays_are_refused(ff: Driver, until: Any) -> None:
    task = await ff.running()
    await refuses(ff, delay(task, until), "invalid_input", field="delay_until")


@pytest.mark.parametrize("name", ["delay", "wait_children"])
async def test_stream_stays_open_while_the_attempt_rests(ff: Driver, name: str) -> None:
    task = await ff.running()
    await ff.store.apply(append(task.execution_id, task.fence))
    await ff.store.apply(EVERY[name](task.execution_id, task.fence))
    stream = await ff.store.read(ReadStream(execution_id=task.execution_id, attempt_index=0))
    assert (len(stream.frames), stream.closed_at) == (1, 0)


async def test_without_children_there_is_nothing_to_wait_for(ff: Driver) -> None:
    task = await ff.running()
    answer = await ff.store.apply(WaitChildren(execution_id=task.execution_id, fence=task.fence))
    assert answer == Moved(task.execution_id, Public.WAITING)
    (attempt,) = await ff.store.read(ListAttempts(execution_id=task.execution_id))
    assert (attempt.life, attempt.suspension_id) == ("suspended", "waiting_children")
    again = await ff.claim_one()
    assert (again.attempt_type, again.attempt_id, again.fence.lease_epoch) == ("resumed", task.attempt_id, 2)


@pytest.mark.parametrize("name", ["delay", "wait_children"])
async def test_handing_back_twice_is_refused(ff: Driver, name: str) -> None:
    task = await ff.running()
    command = EVERY[name](task.execution_id, task.fence)
    await ff.store.apply(command)
    await refuses(ff, command, "execution_not_active", "none", "1", "runnable", task.attempt_id)


# A reply was lost, and the same holder asks again.


def ending(name: str, task: Task) -> Any:
    kinds: dict[str, Any] = {
        "complete": Complete(execution_id=task.execution_id, fence=task.fence, result=b"first"),
        "fail": Fail(execution_id=task.execution_id, fence=task.fence, reason="boom"),
        "fail finally": Fail(
            execution_id=task.execution_id, fence=task.fence, reason="boom", category="permanent"
        ),
        "cancel": Cancel(execution_id=task.execution_id, fence=task.fence, reason="enough"),
    }
    return kinds[name]


def first_answer(ff: Driver, name: str, task: Task) -> Any:
    return {
        "complete": Completed(task.execution_id, Public.COMPLETED),
        "fail": RetryScheduled(ff.now + 1_000, 1),
        "fail finally": TerminalFailed(),
        "cancel": Cancelled(task.execution_id),
    }[name]


ENDINGS = ["complete", "fail", "fail finally", "cancel"]


async def runs_again(ff: Driver, task: Task) -> Task:
    """Let the execution run once more, whatever its end was."""
    run = await ff.show(task.execution_id)
    if run.completed_at:
        await ff.store.apply(Replay(execution_id=task.execution_id))
    else:
        await ff.store.apply(PromoteDelayed(execution_id=task.execution_id))
    return await ff.claim_one(**W2)


@pytest.mark.parametrize("name", ENDINGS)
async def test_repeat_answers_as_the_first_time_whatever_happened_since(ff: Driver, name: str) -> None:
    task = await ff.running(policy=scenes.RETRIES)
    command, answer = ending(name, task), first_answer(ff, name, task)

    async def repeat() -> None:
        async with untouched(ff):
            assert await ff.store.apply(command) == answer

    assert await ff.store.apply(command) == answer
    await repeat()
    ff.clock.advance(10 * LEASE)
    await repeat()
    second = await runs_again(ff, task)
    await repeat()
    ff.clock.advance(LEASE)
    await ff.store.apply(MarkLeaseExpired(execution_id=task.execution_id))
    await repeat()
    third = await ff.claim_one(**W2)
    assert third.attempt_index == second.attempt_index + 1
    await ff.complete(third, b"last")
    await repeat()
    assert await result(ff, task.execution_id) == b"last"


async def test_repeat_with_another_result_keeps_the_first(ff: Driver) -> None:
    task = await ff.running()
    await ff.complete(task, b"first")
    async with untouched(ff):
        assert await ff.complete(task, b"second") == Completed(task.execution_id, Public.COMPLETED)
    assert await result(ff, task.execution_id) == b"first"


@pytest.mark.parametrize("part", ["lease_id", "lease_epoch", "attempt_id"])
@pytest.mark.parametrize("name", ENDINGS)
async def test_repeat_needs_the_fence_of_the_first_call(ff: Driver, name: str, part: str) -> None:
    task = await ff.running(policy=scenes.RETRIES)
    await ff.store.apply(ending(name, task))
    parts = {"lease_id": new_uuid(), "lease_epoch": 7, "attempt_id": new_uuid()}
    given = {"lease_id": task.fence.lease_id, "lease_epoch": 1, "attempt_id": task.fence.attempt_id}
    fence = Fence(**given | {part: parts[part]})  # type: ignore[arg-type]
    verb = name.split(maxsplit=1)[0]
    await refuses(ff, EVERY[verb](task.execution_id, fence), "execution_not_active")


@pytest.mark.parametrize(
    ("name", "again"),
    [
        ("complete", "fail"),
        ("complete", "cancel"),
        ("fail", "complete"),
        ("fail finally", "complete"),
        ("fail finally", "cancel"),
        ("cancel", "complete"),
        ("cancel", "fail"),
    ],
)
async def test_another_ending_is_no_repeat(ff: Driver, name: str, again: str) -> None:
    task = await ff.running(policy=scenes.RETRIES)
    await ff.store.apply(ending(name, task))
    await refuses(ff, EVERY[again](task.execution_id, task.fence), "execution_not_active")


async def test_nobody_repeats_what_an_operator_ended(ff: Driver) -> None:
    task = await ff.running(policy=scenes.RETRIES)
    await ff.store.apply(Cancel(execution_id=task.execution_id, source="operator"))
    details = ("cancelled", "1", "terminal", task.attempt_id)
    for name in ("complete", "fail", "fail finally"):
        await refuses(ff, ending(name, task), "execution_not_active", *details)
    operator = Cancel(execution_id=task.execution_id, source="operator", fence=NO_FENCE)
    await refuses(ff, operator, "execution_not_active", *details)


async def test_failed_attempt_that_runs_again_is_not_cancelled_by_its_old_holder(ff: Driver) -> None:
    task = await ff.running(policy=scenes.RETRIES)
    await ff.fail(task, retry_after_ms=0)
    await ff.claim_one(**W2)
    for name in ("complete", "cancel", "delay", "renew"):
        await refuses(ff, EVERY[name](task.execution_id, task.fence), "stale_lease")
