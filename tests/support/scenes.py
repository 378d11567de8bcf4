"""Executions in every state that a test may want to start from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from flowfabric.model.command import NO_FENCE, Fence
from flowfabric.model.conditions import single
from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.finish import Cancel, Delay, RetryScheduled
from flowfabric.model.operations.lease import Release, RevokeLease
from flowfabric.model.operations.operate import Block, Pause
from flowfabric.model.operations.suspend import Binding, Suspend, Suspended
from flowfabric.model.operations.suspend_resume import ResumeExecution
from flowfabric.model.operations.timer import ExpireExecution, MarkLeaseExpired, PromoteDelayed
from support.driver import LEASE, Driver, new_uuid

RETRIES: dict[str, Any] = {"retry_policy": {"max_retries": 3}}
KEY = "wpk:go"


class Scene(NamedTuple):
    """An execution, and the task of whoever claimed it last."""

    execution_id: str
    task: Task | None = None

    @property
    def fence(self) -> Fence:
        return self.task.fence if self.task else NO_FENCE


Stage = Callable[..., Awaitable[Scene]]
STAGES: dict[str, Stage] = {}
"""Every scene by its name; each takes the driver and the fields of the execution to create."""


def _stage(stage: Stage) -> Stage:
    STAGES[stage.__name__] = stage
    return stage


def suspend(task: Task, **fields: Any) -> Suspend:
    """Suspend on one fresh waitpoint until the signal `go`."""
    given: dict[str, Any] = {
        "execution_id": task.execution_id,
        "fence": task.fence,
        "suspension_id": new_uuid(),
        "waitpoints": (Binding(new_uuid(), KEY),),
        "condition": single(KEY, "go"),
    }
    return Suspend(**(given | fields))


@_stage
async def waiting(ff: Driver, **fields: Any) -> Scene:
    return Scene(await ff.create(**fields))


@_stage
async def delayed(ff: Driver, **fields: Any) -> Scene:
    return Scene(await ff.create(**{"delay_until": ff.now + 60_000} | fields))


@_stage
async def active(ff: Driver, **fields: Any) -> Scene:
    task = await ff.running(**fields)
    return Scene(task.execution_id, task)


@_stage
async def backoff(ff: Driver, **fields: Any) -> Scene:
    task = await ff.running(**{"policy": RETRIES} | fields)
    assert isinstance(await ff.fail(task), RetryScheduled)
    return Scene(task.execution_id, task)


@_stage
async def retryable(ff: Driver, **fields: Any) -> Scene:
    scene = await backoff(ff, **fields)
    ff.clock.advance(1_000)
    await ff.store.apply(PromoteDelayed(execution_id=scene.execution_id))
    return scene


@_stage
async def worker_delayed(ff: Driver, **fields: Any) -> Scene:
    scene = await active(ff, **fields)
    until = ff.now + 60_000
    await ff.store.apply(Delay(execution_id=scene.execution_id, fence=scene.fence, delay_until=until))
    return scene


@_stage
async def interrupted(ff: Driver, **fields: Any) -> Scene:
    scene = await active(ff, **fields)
    await ff.store.apply(Delay(execution_id=scene.execution_id, fence=scene.fence, delay_until=ff.now))
    return scene


@_stage
async def lease_expired(ff: Driver, **fields: Any) -> Scene:
    scene = await active(ff, **fields)
    ff.clock.advance(LEASE)
    await ff.store.apply(MarkLeaseExpired(execution_id=scene.execution_id))
    return scene


@_stage
async def lease_revoked(ff: Driver, **fields: Any) -> Scene:
    scene = await active(ff, **fields)
    await ff.store.apply(RevokeLease(execution_id=scene.execution_id))
    return scene


@_stage
async def lease_released(ff: Driver, **fields: Any) -> Scene:
    scene = await active(ff, **fields)
    await ff.store.apply(Release(execution_id=scene.execution_id, fence=scene.fence))
    return scene


@_stage
async def suspended(ff: Driver, **fields: Any) -> Scene:
    await ff.seed()
    scene = await active(ff, **fields)
    assert scene.task
    assert isinstance(await ff.store.apply(suspend(scene.task)), Suspended)
    return scene


@_stage
async def resume_delayed(ff: Driver, **fields: Any) -> Scene:
    scene = await suspended(ff, **fields)
    await ff.store.apply(ResumeExecution(execution_id=scene.execution_id, resume_delay_ms=60_000))
    return scene


@_stage
async def paused(ff: Driver, **fields: Any) -> Scene:
    scene = await waiting(ff, **fields)
    await ff.store.apply(Pause(execution_id=scene.execution_id))
    return scene


async def _blocked(ff: Driver, reason: str, **fields: Any) -> Scene:
    scene = await waiting(ff, **fields)
    await ff.store.apply(Block(execution_id=scene.execution_id, blocking_reason=reason))
    return scene


@_stage
async def budget_blocked(ff: Driver, **fields: Any) -> Scene:
    return await _blocked(ff, "waiting_for_budget", **fields)


@_stage
async def quota_blocked(ff: Driver, **fields: Any) -> Scene:
    return await _blocked(ff, "waiting_for_quota", **fields)


@_stage
async def completed(ff: Driver, **fields: Any) -> Scene:
    scene = await active(ff, **fields)
    assert scene.task
    await ff.complete(scene.task, b"done")
    return scene


@_stage
async def failed(ff: Driver, **fields: Any) -> Scene:
    scene = await active(ff, **fields)
    assert scene.task
    await ff.fail(scene.task, category="permanent")
    return scene


@_stage
async def cancelled(ff: Driver, **fields: Any) -> Scene:
    scene = await active(ff, **fields)
    await ff.store.apply(Cancel(execution_id=scene.execution_id, source="operator", reason="enough"))
    return scene


@_stage
async def cancelled_unstarted(ff: Driver, **fields: Any) -> Scene:
    scene = await waiting(ff, **fields)
    await ff.store.apply(Cancel(execution_id=scene.execution_id, source="operator", reason="enough"))
    return scene


@_stage
async def expired(ff: Driver, **fields: Any) -> Scene:
    scene = await active(ff, **{"execution_deadline_at": ff.now + 1_000} | fields)
    ff.clock.advance(1_000)
    await ff.store.apply(ExpireExecution(execution_id=scene.execution_id, reason="execution_deadline"))
    return scene


ELIGIBLE = ("waiting", "retryable", "interrupted")
HELD_BACK = (
    "delayed",
    "backoff",
    "worker_delayed",
    "resume_delayed",
    "paused",
    "budget_blocked",
    "quota_blocked",
)
RUNNABLE = (*ELIGIBLE, *HELD_BACK)
LEASE_GONE = ("lease_expired", "lease_revoked", "lease_released")
ACTIVE = ("active", *LEASE_GONE)
ENDED = ("completed", "failed", "cancelled", "cancelled_unstarted", "expired")
LIVE = (*RUNNABLE, *ACTIVE, "suspended")
ALL = (*LIVE, *ENDED)
assert set(ALL) == set(STAGES), set(ALL) ^ set(STAGES)
