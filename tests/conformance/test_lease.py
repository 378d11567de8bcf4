"""Holding a lease: renewing it, losing it, and what a holder that lost it can still do (nothing)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from flowfabric.model.command import NO_FENCE, OPERATOR_OVERRIDE, Fence
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.finish import Cancel, Completed
from flowfabric.model.operations.lease import (
    AlreadySatisfied,
    ListLeases,
    Release,
    Released,
    Renew,
    Renewed,
    Revoked,
    RevokeLease,
)
from flowfabric.model.operations.stream import ReadStream
from flowfabric.model.operations.timer import LoseDeadLease, MarkedExpired, MarkLeaseExpired
from flowfabric.model.operations.worker import MarkWorkerDead
from support import scenes
from support.driver import LEASE, Driver, new_uuid
from support.expect import refused, refuses, untouched
from support.holders import EVERY, FENCED, HOLDER, OVERRIDABLE, append
from support.scenes import Scene

LOST = (
    "active",
    "lease_expired_reclaimable",
    "not_applicable",
    "waiting_for_worker",
    "none",
    "attempt_interrupted",
)
W2: dict[str, Any] = {"worker_id": "w2", "worker_instance_id": "w2-a"}


def renew(task: Task, **fields: object) -> Renew:
    given = {"execution_id": task.execution_id, "fence": task.fence, "lease_ttl_ms": LEASE}
    return Renew(**given | fields)  # type: ignore[arg-type]


def broken(fence: Fence) -> dict[str, Fence]:
    """Fences that differ in one part, and in all."""
    return {
        "lease_id": Fence(new_uuid(), fence.lease_epoch, fence.attempt_id),
        "lease_epoch": Fence(fence.lease_id, fence.lease_epoch + 1, fence.attempt_id),
        "attempt_id": Fence(fence.lease_id, fence.lease_epoch, new_uuid()),
        "all": Fence(new_uuid(), fence.lease_epoch + 7, new_uuid()),
    }


async def active(ff: Driver) -> Scene:
    await ff.seed()
    return await scenes.active(ff)


@pytest.mark.parametrize("ttl", [1_000, 10_001, 3_600_000])
async def test_renewal_counts_from_now(ff: Driver, ttl: int) -> None:
    task = await ff.running()
    ff.clock.advance(LEASE - 1)
    assert await ff.store.apply(renew(task, lease_ttl_ms=ttl, attempt_index=0)) == Renewed(ff.now + ttl)
    run = await ff.show(task.execution_id)
    assert (run.lease_expires_at, run.lease_last_renewed_at) == (ff.now + ttl, ff.now)
    assert run.lease_renewal_deadline == ff.now + ttl * 2 // 3
    assert (run.current_lease_id, run.current_lease_epoch) == (task.fence.lease_id, 1)
    assert await ff.events(task.execution_id) == ["created", "claimed"]


async def test_renewed_lease_is_held(ff: Driver) -> None:
    task = await ff.running()
    for _ in range(3):
        ff.clock.advance(LEASE - 1)
        await ff.store.apply(renew(task))
    assert isinstance(await ff.complete(task), Completed)


@pytest.mark.parametrize(
    ("field", "value"), [("lease_ttl_ms", 999), ("lease_ttl_ms", 3_600_001), ("fence", Fence("x", 1, "y"))]
)
async def test_bad_renewals_are_refused(ff: Driver, field: str, value: object) -> None:
    task = await ff.running()
    await refuses(ff, renew(task, **{field: value}), "invalid_input")


async def test_renewal_of_another_attempt_is_stale(ff: Driver) -> None:
    task = await ff.running()
    await refuses(ff, renew(task, attempt_index=1), "stale_lease")


async def test_many_renewals_are_decided_one_by_one(ff: Driver) -> None:
    good, stale, revoked = [await ff.running() for _ in range(3)]
    await ff.store.apply(RevokeLease(execution_id=revoked.execution_id))
    ff.clock.advance(10)
    replies = await ff.store.apply_many(
        [
            renew(good),
            renew(stale, fence=ff.stale(stale)),
            renew(revoked),
            renew(good, execution_id=ff.new_id()),
            renew(good, fence=NO_FENCE),
        ]
    )
    assert replies[0] == Renewed(ff.now + LEASE)
    codes = [reply.code for reply in replies if isinstance(reply, FlowFabricError)]
    assert codes == ["stale_lease", "lease_revoked", "execution_not_found", "fence_required"]


@pytest.mark.parametrize("name", sorted(EVERY))
async def test_unknown_execution_comes_first(ff: Driver, name: str) -> None:
    await ff.seed()
    for fence in (NO_FENCE, Fence(new_uuid()), Fence(new_uuid(), 1, new_uuid())):
        await refuses(ff, EVERY[name](ff.new_id(), fence), "execution_not_found")


@pytest.mark.parametrize("part", ["lease_id", "lease_epoch", "attempt_id"])
@pytest.mark.parametrize("name", sorted(EVERY))
async def test_half_a_fence_is_refused(ff: Driver, name: str, part: str) -> None:
    scene = await active(ff)
    values = {"lease_id": scene.fence.lease_id, "lease_epoch": 1, "attempt_id": scene.fence.attempt_id}
    for kept in ({part}, set(values) - {part}):
        fence = Fence(**{key: value for key, value in values.items() if key in kept})  # type: ignore[arg-type]
        await refuses(ff, EVERY[name](scene.execution_id, fence), "partial_fence_triple")


@pytest.mark.parametrize("source", ["worker", "lease_holder", "flow_cascade", "system_timeout", ""])
@pytest.mark.parametrize("name", sorted(HOLDER))
async def test_fence_is_required(ff: Driver, name: str, source: str) -> None:
    scene = await active(ff)
    await refuses(ff, HOLDER[name](scene.execution_id, NO_FENCE, source=source), "fence_required")


@pytest.mark.parametrize("name", sorted(FENCED))
async def test_some_commands_have_no_override(ff: Driver, name: str) -> None:
    scene = await active(ff)
    command = FENCED[name](scene.execution_id, NO_FENCE, source=OPERATOR_OVERRIDE)
    await refuses(ff, command, "fence_required")


@pytest.mark.parametrize("name", sorted(EVERY))
async def test_fence_shape_is_judged_before_the_state(ff: Driver, name: str) -> None:
    await ff.seed()
    scene = await scenes.lease_revoked(ff)
    await refuses(ff, EVERY[name](scene.execution_id, NO_FENCE), "fence_required")
    await refuses(ff, EVERY[name](scene.execution_id, Fence(new_uuid())), "partial_fence_triple")


@pytest.mark.parametrize("name", sorted(OVERRIDABLE))
class TestOverride:
    async def test_acts_for_the_holder(self, ff: Driver, name: str) -> None:
        scene = await active(ff)
        await ff.store.apply(OVERRIDABLE[name](scene.execution_id, NO_FENCE, source=OPERATOR_OVERRIDE))
        assert (await ff.show(scene.execution_id)).ownership_state == "unowned"

    @pytest.mark.parametrize(
        ("stage", "code"),
        [
            ("waiting", "execution_not_active"),
            ("suspended", "execution_not_active"),
            ("cancelled", "execution_not_active"),
            ("lease_revoked", "lease_revoked"),
            ("lease_expired", "lease_expired"),
        ],
    )
    async def test_is_still_bound_by_the_state(self, ff: Driver, name: str, stage: str, code: str) -> None:
        scene = await scenes.STAGES[stage](ff)
        command = OVERRIDABLE[name](scene.execution_id, NO_FENCE, source=OPERATOR_OVERRIDE)
        await refuses(ff, command, code)

    async def test_must_match_a_fence_that_it_sends(self, ff: Driver, name: str) -> None:
        scene = await active(ff)
        fence = broken(scene.fence)["lease_id"]
        command = OVERRIDABLE[name](scene.execution_id, fence, source=OPERATOR_OVERRIDE)
        await refuses(ff, command, "stale_lease")


@pytest.mark.parametrize("part", ["lease_id", "lease_epoch", "attempt_id", "all"])
@pytest.mark.parametrize("name", sorted(EVERY))
async def test_fence_must_match_in_every_part(ff: Driver, name: str, part: str) -> None:
    scene = await active(ff)
    fence = broken(scene.fence)[part]
    await refuses(ff, EVERY[name](scene.execution_id, fence), "stale_lease")
    await refuses(ff, append(scene.execution_id, fence), "stale_owner_cannot_append")


@pytest.mark.parametrize("name", sorted(EVERY))
async def test_revocation_is_noticed_before_identity(ff: Driver, name: str) -> None:
    await ff.seed()
    scene = await scenes.lease_revoked(ff)
    ff.clock.advance(LEASE)
    for fence in (scene.fence, broken(scene.fence)["all"]):
        await refuses(ff, EVERY[name](scene.execution_id, fence), "lease_revoked")
    await refuses(ff, append(scene.execution_id, scene.fence), "stale_owner_cannot_append")


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("name", sorted(set(EVERY) - {"progress"}))
async def test_expired_lease_is_noticed_before_identity_and_marked(
    ff: Driver, name: str, own: bool, late: int
) -> None:
    scene = await active(ff)
    ff.clock.advance(LEASE + late)
    fence = scene.fence if own else broken(scene.fence)["all"]
    with refused("lease_expired"):
        await ff.store.apply(EVERY[name](scene.execution_id, fence))
    assert await ff.vector(scene.execution_id) == (*LOST, "active")
    run = await ff.show(scene.execution_id)
    assert (run.lease_expired_at, run.lease_end) == (ff.now, "expired")
    assert await ff.events(scene.execution_id) == ["created", "claimed", "lease_expired"]
    await refuses(ff, EVERY[name](scene.execution_id, fence), "lease_expired")
    assert (await ff.claim_one(**W2)).attempt_type == "reclaim"


async def test_progress_and_frames_are_refused_after_expiry(ff: Driver) -> None:
    scene = await active(ff)
    ff.clock.advance(LEASE)
    await refuses(ff, append(scene.execution_id, scene.fence), "stale_owner_cannot_append")
    with refused("lease_expired"):
        await ff.store.apply(HOLDER["progress"](scene.execution_id, scene.fence))
    assert (await ff.show(scene.execution_id)).progress_pct == -1


@pytest.mark.parametrize("name", sorted(set(EVERY) - {"renew"}))
async def test_lease_holds_until_the_last_millisecond(ff: Driver, name: str) -> None:
    scene = await active(ff)
    ff.clock.advance(LEASE - 1)
    await ff.store.apply(EVERY[name](scene.execution_id, scene.fence))
    assert "lease_expired" not in await ff.events(scene.execution_id)


@pytest.mark.parametrize(
    ("stage", "outcome", "epoch", "phase", "attempt"),
    [
        ("waiting", "none", 0, "runnable", False),
        ("delayed", "none", 0, "runnable", False),
        ("backoff", "none", 1, "runnable", False),
        ("worker_delayed", "none", 1, "runnable", True),
        ("suspended", "none", 1, "suspended", True),
        ("completed", "success", 1, "terminal", True),
        ("failed", "failed", 1, "terminal", True),
        ("cancelled", "cancelled", 1, "terminal", True),
        ("expired", "expired", 1, "terminal", True),
    ],
)
@pytest.mark.parametrize("name", sorted(HOLDER))
async def test_inactive_execution_tells_where_it_is(
    ff: Driver, name: str, stage: str, outcome: str, epoch: int, phase: str, attempt: bool
) -> None:
    await ff.seed()
    scene = await scenes.STAGES[stage](ff)
    details = (outcome, str(epoch), phase, scene.fence.attempt_id if attempt else "")
    stranger = Fence(new_uuid(), 1, new_uuid())
    await refuses(ff, HOLDER[name](scene.execution_id, stranger), "execution_not_active", *details)


@pytest.mark.parametrize("name", sorted(EVERY))
async def test_holder_that_was_replaced_changes_nothing(ff: Driver, name: str) -> None:
    await ff.seed()
    scene = await scenes.lease_expired(ff)
    new = await ff.claim_one(**W2)
    await refuses(ff, EVERY[name](scene.execution_id, scene.fence), "stale_lease")
    await refuses(ff, append(scene.execution_id, scene.fence), "stale_owner_cannot_append")
    assert isinstance(await ff.complete(new), Completed)


@pytest.mark.parametrize(
    ("stage", "reason"),
    [
        ("waiting", "not_active"),
        ("worker_delayed", "not_active"),
        ("suspended", "not_active"),
        ("completed", "not_active"),
        ("active", "not_yet_expired"),
        ("lease_expired", "already_expired"),
        ("lease_released", "already_expired"),
        ("lease_revoked", "already_revoked"),
    ],
)
async def test_marking_what_is_not_expired_does_nothing(ff: Driver, stage: str, reason: str) -> None:
    scene = await scenes.STAGES[stage](ff)
    if stage == "active":
        ff.clock.advance(LEASE - 1)
    async with untouched(ff):
        answer = await ff.store.apply(MarkLeaseExpired(execution_id=scene.execution_id))
    assert answer == AlreadySatisfied(reason)


async def test_marking_an_unknown_execution_does_nothing(ff: Driver) -> None:
    answer = await ff.store.apply(MarkLeaseExpired(execution_id=ff.new_id()))
    assert answer == AlreadySatisfied("execution_not_found")


async def test_marking_an_expired_lease(ff: Driver) -> None:
    scene = await active(ff)
    await ff.store.apply(append(scene.execution_id, scene.fence))
    ff.clock.advance(LEASE)
    answer = await ff.store.apply(MarkLeaseExpired(execution_id=scene.execution_id, actor="timer"))
    assert answer == MarkedExpired()
    assert await ff.vector(scene.execution_id) == (*LOST, "active")
    stream = await ff.store.read(ReadStream(execution_id=scene.execution_id, attempt_index=0))
    assert (stream.closed_at, stream.closed_reason) == (ff.now, "lease_expired")
    last = (await ff.history(scene.execution_id))[-1]
    assert (last.event, last.actor, last.lease_epoch) == ("lease_expired", "timer", 1)


async def release(ff: Driver, scene: Scene) -> None:
    command = Release(execution_id=scene.execution_id, fence=scene.fence, reason="shutting down")
    assert await ff.store.apply(command) == Released()


async def lose(ff: Driver, scene: Scene) -> None:
    await ff.store.apply(MarkWorkerDead(worker_instance_id="w1-a", reason="gone"))
    command = LoseDeadLease(execution_id=scene.execution_id, worker_instance_id="w1-a")
    assert await ff.store.apply(command) == MarkedExpired()


@pytest.mark.parametrize(
    ("give_up", "end", "event", "counted"),
    [(release, "released", "released", 0), (lose, "worker_dead", "worker_dead", 1)],
)
async def test_lease_given_back_or_lost_is_claimable_at_once(
    ff: Driver, give_up: Callable[[Driver, Scene], Awaitable[None]], end: str, event: str, counted: int
) -> None:
    scene = await active(ff)
    ff.clock.advance(10)
    await give_up(ff, scene)
    assert await ff.vector(scene.execution_id) == (*LOST, "active")
    run = await ff.show(scene.execution_id)
    assert (run.lease_end, (await ff.history(scene.execution_id))[-1].event) == (end, event)
    assert await ff.store.read(ListLeases(worker_instance_id="w1-a")) == ()
    for name in sorted(EVERY):
        await refuses(ff, EVERY[name](scene.execution_id, scene.fence), "lease_expired")
    task = await ff.claim_one(**W2)
    assert (task.attempt_type, task.attempt_index, task.fence.lease_epoch) == ("reclaim", 1, 2)
    assert (await ff.show(scene.execution_id)).lease_reclaim_count == counted


async def test_lease_of_a_dead_worker_is_only_taken_from_that_worker(ff: Driver) -> None:
    scene = await active(ff)
    for execution_id in (scene.execution_id, await ff.create(), ff.new_id()):
        async with untouched(ff):
            command = LoseDeadLease(execution_id=execution_id, worker_instance_id="w9-a")
            assert isinstance(await ff.store.apply(command), AlreadySatisfied)


@pytest.mark.parametrize("expected", [True, False])
async def test_revoked_lease(ff: Driver, expected: bool) -> None:
    scene = await active(ff)
    lease_id = scene.fence.lease_id if expected else ""
    command = RevokeLease(
        execution_id=scene.execution_id, expected_lease_id=lease_id, reason="stuck", actor="ann"
    )
    assert await ff.store.apply(command) == Revoked(scene.fence.lease_id, 1)
    lost = ("active", "lease_revoked", *LOST[2:], "active")
    assert await ff.vector(scene.execution_id) == lost
    run = await ff.show(scene.execution_id)
    assert (run.lease_revoked_at, run.lease_revoke_reason, run.lease_end) == (ff.now, "stuck", "revoked")
    last = (await ff.history(scene.execution_id))[-1]
    assert (last.event, last.reason, last.actor) == ("lease_revoked", "stuck", "ann")
    assert await ff.store.read(ListLeases(worker_instance_id="w1-a")) == ()
    assert (await ff.claim_one(**W2)).attempt_type == "reclaim"


@pytest.mark.parametrize(
    ("stage", "reason"),
    [
        ("lease_revoked", "already_revoked"),
        ("lease_expired", "already_expired"),
        ("waiting", "no_active_lease"),
        ("worker_delayed", "no_active_lease"),
        ("suspended", "no_active_lease"),
        ("completed", "no_active_lease"),
    ],
)
async def test_revoking_without_a_lease_does_nothing(ff: Driver, stage: str, reason: str) -> None:
    scene = await scenes.STAGES[stage](ff)
    async with untouched(ff):
        answer = await ff.store.apply(RevokeLease(execution_id=scene.execution_id))
    assert answer == AlreadySatisfied(reason)


async def test_revoking_another_lease_is_refused(ff: Driver) -> None:
    scene = await active(ff)
    other = RevokeLease(execution_id=scene.execution_id, expected_lease_id=new_uuid())
    await refuses(ff, other, "stale_lease")
    await refuses(ff, RevokeLease(execution_id=ff.new_id()), "execution_not_found")


async def test_cancel_by_the_holder_needs_no_fence_once_nobody_holds_it(ff: Driver) -> None:
    execution_id = await ff.create()
    await ff.store.apply(Cancel(execution_id=execution_id, source="worker"))
    assert (await ff.show(execution_id)).public_state == "cancelled"
