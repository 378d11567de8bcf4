"""Failing: which failures are tried again, when, and how often."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model import limits
from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.finish import Fail, RetryScheduled, TerminalFailed
from flowfabric.model.operations.read import ListAttempts
from flowfabric.model.operations.timer import PromoteDelayed
from support import scenes
from support.driver import Driver
from support.expect import refused, refuses

LEASE = 3_600_000


async def next_attempt(ff: Driver, execution_id: str) -> Task:
    """Wait for the retry and claim it."""
    run = await ff.show(execution_id)
    ff.clock.advance(max(run.delay_until - ff.now, 0))
    await ff.store.apply(PromoteDelayed(execution_id=execution_id))
    return await ff.claim_one(lease_ttl_ms=LEASE)


async def delays(ff: Driver, retry_policy: dict[str, Any], **fields: Any) -> list[int]:
    """Fail until it is final; return how long each retry had to wait."""
    task = await ff.running(policy={"retry_policy": retry_policy})
    waits: list[int] = []
    while isinstance(answer := await ff.fail(task, **fields), RetryScheduled):
        waits.append(answer.delay_until - ff.now)
        assert answer.next_attempt_index == task.attempt_index + 1
        task = await next_attempt(ff, task.execution_id)
        assert (task.attempt_type, task.attempt_index) == ("retry", answer.next_attempt_index)
    assert answer == TerminalFailed()
    assert (await ff.show(task.execution_id)).retry_count == len(waits)
    return waits


def exponential(**fields: Any) -> dict[str, Any]:
    return {"max_retries": 5, "backoff": {"type": "exponential"} | fields}


@pytest.mark.parametrize(
    ("retry_policy", "expected"),
    [
        pytest.param(
            {"max_retries": 8},
            [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000],
            id="default backoff",
        ),
        pytest.param({}, [1_000, 2_000, 4_000], id="all defaults"),
        pytest.param({"max_retries": 0}, [], id="no retries"),
        pytest.param({"max_retries": 1}, [1_000], id="one retry"),
        pytest.param(exponential(), [1_000, 2_000, 4_000, 8_000, 16_000], id="exponential defaults"),
        pytest.param(exponential(initial_delay_ms=500), [500, 1_000, 2_000, 4_000, 8_000], id="initial"),
        pytest.param(exponential(max_delay_ms=3_000), [1_000, 2_000, 3_000, 3_000, 3_000], id="cap"),
        pytest.param(exponential(max_delay_ms=700), [700] * 5, id="cap below the first"),
        pytest.param(
            exponential(initial_delay_ms=100, multiplier=1.5),
            [100, 150, 225, 337, 506],
            id="fractions round down",
        ),
        pytest.param(exponential(multiplier=1), [1_000] * 5, id="constant"),
        pytest.param(
            exponential(initial_delay_ms=1, multiplier=9e15, max_delay_ms=2_000_000),
            [1, *[2_000_000] * 4],
            id="overflow stops at the cap",
        ),
        pytest.param(exponential(jitter=True), [750, 1_500, 3_000, 6_000, 12_000], id="jitter"),
        pytest.param(
            exponential(jitter=True, max_delay_ms=2_000),
            [750, 1_500, 1_500, 1_500, 1_500],
            id="jitter below the cap",
        ),
        pytest.param({"max_retries": 2, "backoff": {"type": "fixed"}}, [1_000, 1_000], id="fixed default"),
        pytest.param(
            {"max_retries": 2, "backoff": {"type": "fixed", "delay_ms": 90_000}},
            [90_000] * 2,
            id="fixed has no cap",
        ),
        pytest.param({"max_retries": 2, "backoff": {"type": "fixed", "delay_ms": 0}}, [0, 0], id="at once"),
        pytest.param({"max_retries": 2, "backoff": {}}, [1_000, 1_000], id="no type"),
    ],
)
async def test_backoff(ff: Driver, retry_policy: dict[str, Any], expected: list[int]) -> None:
    assert await delays(ff, retry_policy) == expected


async def test_an_unknown_backoff_is_refused_before_anything_is_written(ff: Driver) -> None:
    with refused("invalid_policy_json", "retry_policy.backoff.type:unknown", field="policy"):
        await ff.create(policy={"retry_policy": {"backoff": {"type": "odd"}}})


@pytest.mark.parametrize("after", [0, 1, 10_000_000])
async def test_retry_after_replaces_the_backoff_and_adds_no_retry(ff: Driver, after: int) -> None:
    assert await delays(ff, {"max_retries": 2}, retry_after_ms=after) == [after, after]


async def test_retry_after_adds_no_retry_policy(ff: Driver) -> None:
    assert await ff.fail(await ff.running(), retry_after_ms=5) == TerminalFailed()


async def test_backoff_counts_retries_even_where_the_caller_chose_the_delay(ff: Driver) -> None:
    task = await ff.running(policy={"retry_policy": {"max_retries": 3}})
    await ff.fail(task, retry_after_ms=7)
    task = await next_attempt(ff, task.execution_id)
    assert await ff.fail(task) == RetryScheduled(ff.now + 2_000, 2)


KNOWN = ("transient", "permanent", "infra_crash", "timeout", "cancelled")
FINAL = ("permanent", "cancelled", "invalid_input", "step_mismatch")


@pytest.mark.parametrize(
    ("categories", "category", "retried"),
    [
        *((None, category, False) for category in ("transient", "infra_crash", "error")),
        *(([], category, True) for category in ("transient", "infra_crash", "timeout", "error", "my own")),
        *(([], category, False) for category in FINAL),
        *(([*KNOWN, *FINAL], category, False) for category in FINAL),
        (["timeout"], "timeout", True),
        (["timeout"], "transient", False),
        (["timeout"], "my own", False),
        (["transient"], "transient", True),
        (["transient"], "my own", True),
        (["transient"], "infra_crash", False),
        (["transient"], "timeout", False),
        (["my own"], "my own", True),
        (["my own"], "My Own", False),
        (["my own"], "transient", False),
    ],
)
async def test_category_decides_whether_to_retry(
    ff: Driver, categories: list[str] | None, category: str, retried: bool
) -> None:
    """No categories at all: there is no retry policy."""
    policy = {} if categories is None else {"retry_policy": {"retryable_categories": categories}}
    task = await ff.running(policy=policy)
    answer = await ff.fail(task, category=category)
    assert answer == (RetryScheduled(ff.now + 1_000, 1) if retried else TerminalFailed())
    run = await ff.show(task.execution_id)
    assert run.public_state == ("delayed" if retried else "failed")
    assert run.retry_count == retried
    (attempt,) = await ff.store.read(ListAttempts(execution_id=task.execution_id))
    assert (attempt.life, attempt.failure_category) == ("ended_failure", category)


async def test_category_is_error_unless_said(ff: Driver) -> None:
    scene = await scenes.backoff(ff)
    (attempt,) = await ff.store.read(ListAttempts(execution_id=scene.execution_id))
    assert (attempt.failure_category, attempt.failure_reason) == ("error", "boom")


async def test_scheduled_retry_gives_the_lease_back(ff: Driver) -> None:
    scene = await scenes.backoff(ff)
    run = await ff.show(scene.execution_id)
    assert (run.current_lease_id, run.current_worker_id, run.current_worker_instance_id) == ("", "", "")
    assert (run.lease_expires_at, run.lease_renewal_deadline, run.current_attempt_id) == (0, 0, "")
    assert (run.current_lease_epoch, run.total_attempt_count, run.completed_at) == (1, 1, 0)
    assert (run.failure_reason, run.delay_until) == ("boom", ff.now + 1_000)


async def test_retry_knows_what_it_repeats(ff: Driver) -> None:
    scene = await scenes.backoff(ff)
    task = await next_attempt(ff, scene.execution_id)
    first, second = await ff.store.read(ListAttempts(execution_id=scene.execution_id))
    assert (first.index, first.life) == (0, "ended_failure")
    assert (second.index, second.kind, second.lineage_reason, second.previous_index) == (
        1,
        "retry",
        "boom",
        0,
    )
    assert (second.attempt_id, second.lease_epoch) == (task.attempt_id, 2)
    assert (await ff.show(scene.execution_id)).pending_lineage_reason == ""


async def test_retry_without_delay_is_eligible_in_the_same_step(ff: Driver) -> None:
    task = await ff.running(policy={"retry_policy": {"backoff": {"type": "fixed", "delay_ms": 0}}})
    assert await ff.fail(task) == RetryScheduled(ff.now, 1)
    assert await ff.vector(task.execution_id) == (
        "runnable",
        "unowned",
        "eligible_now",
        "waiting_for_worker",
        "none",
        "pending_retry_attempt",
        "waiting",
    )
    assert (await ff.claim_one()).attempt_type == "retry"


async def test_final_failure_keeps_reason_category_and_detail(ff: Driver) -> None:
    task = await ff.running()
    await ff.fail(task, reason="no disk", category="infra_crash", detail="Traceback \u2026\n  line 1")
    run = await ff.show(task.execution_id)
    assert (run.failure_reason, run.failure_category, run.completed_at) == ("no disk", "infra_crash", ff.now)
    (attempt,) = await ff.store.read(ListAttempts(execution_id=task.execution_id))
    assert attempt.failure_detail == "Traceback \u2026\n  line 1"
    assert (attempt.failure_reason, attempt.ended_at) == ("no disk", ff.now)
    last = (await ff.history(task.execution_id))[-1]
    assert (last.event, last.reason, last.from_state, last.to_state) == (
        "failed",
        "no disk",
        "active",
        "failed",
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("detail", "d" * (limits.MAX_DETAIL_BYTES + 1)),
        ("detail", "\u00e9" * (limits.MAX_DETAIL_BYTES // 2 + 1)),
        ("reason", "r" * (limits.MAX_TEXT_BYTES + 1)),
        ("category", ""),
        ("category", "c" * 257),
        ("category", "a\nb"),
        ("retry_after_ms", -1),
        ("retry_after_ms", 2**53),
        ("retry_after_ms", 1.5),
    ],
    ids=lambda value: str(value)[:20],
)
async def test_bad_failures_are_refused(ff: Driver, field: str, value: Any) -> None:
    task = await ff.running(policy=scenes.RETRIES)
    command = {"execution_id": task.execution_id, "fence": task.fence, "reason": "r", field: value}
    await refuses(ff, Fail(**command), "invalid_input", field=field)


async def test_longest_detail_is_kept(ff: Driver) -> None:
    task = await ff.running()
    await ff.fail(task, detail="d" * limits.MAX_DETAIL_BYTES, reason="r" * limits.MAX_TEXT_BYTES)
    (attempt,) = await ff.store.read(ListAttempts(execution_id=task.execution_id))
    assert len(attempt.failure_detail) == limits.MAX_DETAIL_BYTES


async def test_deadline_survives_a_retry(ff: Driver) -> None:
    deadline = ff.now + 90_000
    scene = await scenes.backoff(ff, execution_deadline_at=deadline)
    assert (await ff.show(scene.execution_id)).execution_deadline_at == deadline
