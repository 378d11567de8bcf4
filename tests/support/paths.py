"""A path into every row of the transition table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from flowfabric.model.operations.lease import Release, RevokeLease
from flowfabric.model.operations.operate import Replay, Unblock, Unpause
from flowfabric.model.operations.signal import DeliverSignal
from flowfabric.model.operations.suspend import Binding
from flowfabric.model.operations.suspend_resume import ResumeExecution
from flowfabric.model.operations.suspend_waitpoint import CreateWaitpoint
from flowfabric.model.operations.timer import ExpireSuspension, LoseDeadLease, PromoteDelayed
from flowfabric.model.operations.worker import MarkWorkerDead
from support import scenes
from support.driver import Driver, new_uuid
from support.holders import EVERY
from support.scenes import RETRIES, Scene, suspend

NEED_FLOWS: Final = {"T27"}
Path = Callable[[Driver], Awaitable[str]]
PATHS: dict[str, tuple[Path, str, str, str]] = {}
"""By row: the path, the vector that it leads to, the public state, and the history event of the row."""

WAITING = "runnable unowned eligible_now waiting_for_worker none"
DELAYED = "runnable unowned not_eligible_until_time"
RUNNING = "active leased not_applicable none none running_attempt"
ENDED = "terminal unowned not_applicable none"
W2: dict[str, Any] = {"worker_id": "w2", "worker_instance_id": "w2-a"}


def path(row: str, vector: str, public: str, event: str) -> Callable[[Path], Path]:
    def register(walk: Path) -> Path:
        PATHS[row] = (walk, vector, public, event)
        return walk

    return register


async def staged(ff: Driver, name: str, *commands: Callable[[Scene], Any], **fields: Any) -> str:
    """Set a scene and apply commands to it."""
    scene = await scenes.STAGES[name](ff, **fields)
    for command in commands:
        await ff.store.apply(command(scene))
    return scene.execution_id


@path("T1", f"{WAITING} pending_first_attempt", "waiting", "created")
async def _create(ff: Driver) -> str:
    return await staged(ff, "waiting")


@path("T2", f"{DELAYED} waiting_for_delay none pending_first_attempt", "delayed", "created")
async def _create_delayed(ff: Driver) -> str:
    return await staged(ff, "delayed")


@path("T3", f"{WAITING} pending_first_attempt", "waiting", "promoted")
async def _promote(ff: Driver) -> str:
    execution_id = await staged(ff, "delayed")
    ff.clock.advance(60_000)
    await ff.store.apply(PromoteDelayed(execution_id=execution_id))
    return execution_id


@path("T5", RUNNING, "active", "claimed")
async def _claim(ff: Driver) -> str:
    return await staged(ff, "active")


@path("T6", RUNNING, "active", "resumed_claim")
async def _claim_resumed(ff: Driver) -> str:
    execution_id = await staged(ff, "interrupted")
    await ff.claim_one()
    return execution_id


LOST = "not_applicable waiting_for_worker none attempt_interrupted"


@path("T8", f"active lease_expired_reclaimable {LOST}", "active", "lease_expired")
async def _lease_expires(ff: Driver) -> str:
    return await staged(ff, "lease_expired")


@path("T8r", f"active lease_expired_reclaimable {LOST}", "active", "released")
async def _release(ff: Driver) -> str:
    return await staged(ff, "active", lambda s: Release(execution_id=s.execution_id, fence=s.fence))


@path("T8d", f"active lease_expired_reclaimable {LOST}", "active", "worker_dead")
async def _worker_dead(ff: Driver) -> str:
    return await staged(
        ff,
        "active",
        lambda _: MarkWorkerDead(worker_instance_id="w1-a"),
        lambda s: LoseDeadLease(execution_id=s.execution_id, worker_instance_id="w1-a"),
    )


@path("T9", f"active lease_revoked {LOST}", "active", "lease_revoked")
async def _revoke(ff: Driver) -> str:
    return await staged(ff, "active", lambda s: RevokeLease(execution_id=s.execution_id))


@path("T11", RUNNING, "active", "reclaimed")
async def _reclaim(ff: Driver) -> str:
    execution_id = await staged(ff, "lease_expired")
    await ff.claim_one(**W2)
    return execution_id


@path("T12", f"{ENDED} failed attempt_terminal", "failed", "failed")
async def _reclaim_at_cap(ff: Driver) -> str:
    execution_id = await staged(ff, "lease_expired", policy={"max_reclaim_count": 0})
    assert await ff.claim() == ()
    return execution_id


@path("T13", f"{ENDED} success attempt_terminal", "completed", "completed")
async def _complete(ff: Driver) -> str:
    return await staged(ff, "active", lambda s: EVERY["complete"](*s[:1], s.fence))


@path("T14", f"{DELAYED} waiting_for_retry_backoff none pending_retry_attempt", "delayed", "retry_scheduled")
async def _fail_with_retry(ff: Driver) -> str:
    return await staged(ff, "active", lambda s: EVERY["fail"](*s[:1], s.fence), policy=RETRIES)


@path("T15", f"{ENDED} failed attempt_terminal", "failed", "failed")
async def _fail(ff: Driver) -> str:
    return await staged(ff, "active", lambda s: EVERY["fail"](*s[:1], s.fence))


@path("T16", f"{DELAYED} waiting_for_delay none attempt_interrupted", "delayed", "delayed")
async def _delay(ff: Driver) -> str:
    return await staged(ff, "worker_delayed")


@path("T17", f"{WAITING} attempt_interrupted", "waiting", "waiting_children")
async def _wait_children(ff: Driver) -> str:
    return await staged(ff, "active", lambda s: EVERY["wait_children"](*s[:1], s.fence))


PATHS["T30"] = (_wait_children, *PATHS["T17"][1:3], "promoted")


@path(
    "T18",
    "suspended unowned not_applicable waiting_for_signal none attempt_interrupted",
    "suspended",
    "suspended",
)
async def _suspend(ff: Driver) -> str:
    return await staged(ff, "suspended")


@path("T19", RUNNING, "active", "already_satisfied")
async def _suspend_satisfied(ff: Driver) -> str:
    await ff.seed()
    task = await ff.running()
    waitpoint_id = new_uuid()
    opened = await ff.store.apply(
        CreateWaitpoint(
            execution_id=task.execution_id,
            fence=task.fence,
            waitpoint_id=waitpoint_id,
            waitpoint_key=scenes.KEY,
            expires_in_ms=60_000,
        )
    )
    await ff.store.apply(
        DeliverSignal(
            execution_id=task.execution_id,
            waitpoint_id=waitpoint_id,
            waitpoint_token=opened.waitpoint.waitpoint_token,
            signal_id=new_uuid(),
            signal_name="go",
        )
    )
    await ff.store.apply(suspend(task, waitpoints=(Binding(waitpoint_id, pending=True),)))
    return task.execution_id


@path("T20", f"{WAITING} attempt_interrupted", "waiting", "resumed")
async def _resume(ff: Driver) -> str:
    return await staged(ff, "suspended", lambda s: ResumeExecution(execution_id=s.execution_id))


@path("T21", f"{DELAYED} waiting_for_resume_delay none attempt_interrupted", "delayed", "resumed")
async def _resume_later(ff: Driver) -> str:
    return await staged(ff, "resume_delayed")


async def _suspension_times_out(ff: Driver, behavior: str) -> str:
    await ff.seed()
    task = await ff.running()
    await ff.store.apply(suspend(task, timeout_at=ff.now + 1_000, timeout_behavior=behavior))
    ff.clock.advance(1_000)
    await ff.store.apply(ExpireSuspension(execution_id=task.execution_id))
    return task.execution_id


@path("T22f", f"{ENDED} failed attempt_terminal", "failed", "failed")
async def _suspension_fails(ff: Driver) -> str:
    return await _suspension_times_out(ff, "fail")


@path("T22c", f"{ENDED} cancelled attempt_terminal", "cancelled", "cancelled")
async def _suspension_cancels(ff: Driver) -> str:
    return await _suspension_times_out(ff, "cancel")


@path("T22e", f"{ENDED} expired attempt_terminal", "expired", "expired")
async def _suspension_expires(ff: Driver) -> str:
    return await _suspension_times_out(ff, "expire")


@path(
    "T23",
    "suspended unowned not_applicable paused_by_operator none attempt_interrupted",
    "suspended",
    "escalated",
)
async def _suspension_escalates(ff: Driver) -> str:
    return await _suspension_times_out(ff, "escalate")


@path("T24", f"{ENDED} cancelled attempt_terminal", "cancelled", "cancelled")
async def _cancel(ff: Driver) -> str:
    return await staged(ff, "cancelled")


@path("T25", f"{ENDED} expired attempt_terminal", "expired", "expired")
async def _expire(ff: Driver) -> str:
    return await staged(ff, "expired")


@path("T26", f"{WAITING} pending_replay_attempt", "waiting", "replayed")
async def _replay(ff: Driver) -> str:
    return await staged(ff, "completed", lambda s: Replay(execution_id=s.execution_id))


@path(
    "T28",
    "runnable unowned blocked_by_quota waiting_for_quota none pending_first_attempt",
    "rate_limited",
    "blocked",
)
async def _block(ff: Driver) -> str:
    return await staged(ff, "quota_blocked")


@path(
    "T28p",
    "runnable unowned blocked_by_operator paused_by_operator none pending_first_attempt",
    "waiting",
    "paused",
)
async def _pause(ff: Driver) -> str:
    return await staged(ff, "paused")


@path("T29", f"{WAITING} pending_first_attempt", "waiting", "unblocked")
async def _unblock(ff: Driver) -> str:
    return await staged(ff, "quota_blocked", lambda s: Unblock(execution_id=s.execution_id))


@path("T29u", f"{WAITING} pending_first_attempt", "waiting", "unpaused")
async def _unpause(ff: Driver) -> str:
    return await staged(ff, "paused", lambda s: Unpause(execution_id=s.execution_id))
