"""Claiming: what a worker gets, in which order, and what it never gets."""

from __future__ import annotations

import random
from typing import Any

import pytest

from flowfabric.model import limits
from flowfabric.model.command import Fence
from flowfabric.model.operations.claim import Claim, Task
from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.operations.grant import IssueClaimGrant, IssueReclaimGrant
from flowfabric.model.operations.lane import PauseLane, UnpauseLane
from flowfabric.model.operations.lease import Release, Renew
from flowfabric.model.operations.operate import ChangePriority, Replay
from flowfabric.model.operations.read import ListAttempts
from flowfabric.model.operations.timer import MarkLeaseExpired, PromoteDelayed
from support import scenes
from support.driver import LEASE, Driver, new_uuid
from support.expect import refuses, untouched

W2: dict[str, Any] = {"worker_id": "w2", "worker_instance_id": "w2-a"}


def needing(*capabilities: str) -> dict[str, Any]:
    return {"routing_requirements": {"required_capabilities": list(capabilities)}}


def claimed(tasks: tuple[Task, ...]) -> list[str]:
    return [task.execution_id for task in tasks]


async def expire(ff: Driver, execution_id: str) -> None:
    ff.clock.advance(LEASE)
    await ff.store.apply(MarkLeaseExpired(execution_id=execution_id))


async def test_task_carries_all_that_a_worker_needs(ff: Driver) -> None:
    execution_id = await ff.create(
        execution_kind="render",
        namespace="team",
        lane_id="gpu",
        priority=5,
        input_payload=b"\x00\xff",
        payload_encoding="raw",
        tags=(("a", "1"),),
        execution_deadline_at=ff.now + 90_000,
        policy={"timeout_policy": {"attempt_timeout_ms": 60_000}},
    )
    task = await ff.claim_one(lanes=("gpu",), lease_ttl_ms=10_000)
    assert len({task.fence.lease_id, task.attempt_id}) == 2
    assert task == Task(
        execution_id=execution_id,
        execution_kind="render",
        namespace="team",
        lane_id="gpu",
        flow_id="",
        priority=5,
        attempt_index=0,
        attempt_id=task.attempt_id,
        attempt_type="initial",
        fence=Fence(task.fence.lease_id, 1, task.attempt_id),
        lease_expires_at=ff.now + 10_000,
        input=b"\x00\xff",
        payload_encoding="raw",
        tags=(("a", "1"),),
        policy=b'{"timeout_policy": {"attempt_timeout_ms": 60000}}',
        worker_id="w1",
        worker_instance_id="w1-a",
        attempt_deadline_at=ff.now + 60_000,
        execution_deadline_at=ff.now + 90_000,
    )


@pytest.mark.parametrize("policy", [b"", b"{}", b'{"priority": 1}'])
async def test_task_carries_the_policy_as_it_came(ff: Driver, policy: bytes) -> None:
    await ff.store.apply(CreateExecution(execution_id=ff.new_id(), execution_kind="job", policy=policy))
    assert (await ff.claim_one()).policy == policy


async def test_record_names_its_holder(ff: Driver) -> None:
    task = await ff.running()
    run = await ff.show(task.execution_id)
    assert (run.current_worker_id, run.current_worker_instance_id) == ("w1", "w1-a")
    assert (run.current_lease_id, run.current_lease_epoch) == (task.fence.lease_id, 1)
    assert run.current_attempt_id == task.attempt_id
    assert (run.lease_acquired_at, run.lease_expires_at) == (ff.now, ff.now + LEASE)
    assert run.lease_renewal_deadline == ff.now + LEASE * 2 // 3
    assert (run.started_at, run.total_attempt_count) == (ff.now, 1)
    (attempt,) = await ff.store.read(ListAttempts(execution_id=task.execution_id))
    assert (attempt.index, attempt.kind, attempt.life, attempt.started_at) == (
        0,
        "initial",
        "started",
        ff.now,
    )
    assert (attempt.lease_epoch, attempt.worker_id) == (1, "w1")


async def test_renewal_deadline_is_rounded_down(ff: Driver) -> None:
    await ff.create()
    task = await ff.claim_one(lease_ttl_ms=1_001)
    assert (await ff.show(task.execution_id)).lease_renewal_deadline == ff.now + 667


@pytest.mark.parametrize("batch", [1, 7, 64])
async def test_order_is_priority_then_age_then_id(ff: Driver, batch: int) -> None:
    draw = random.Random(7)
    expected: list[tuple[int, int, str]] = []
    for _ in range(60):
        priority = draw.choice([0, 0, 1, 5, 9_000])
        ff.clock.advance(draw.choice([0, 0, 1, 1_000]))
        execution_id = await ff.create(priority=priority, execution_kind=draw.choice("ab"))
        expected.append((-priority, ff.now, execution_id))
    order: list[str] = []
    while tasks := await ff.claim(max_tasks=batch):
        order += claimed(tasks)
    assert order == [execution_id for *_, execution_id in sorted(expected)]


async def test_priority_always_beats_age(ff: Driver) -> None:
    old = await ff.create(priority=1)
    ff.clock.advance(365 * limits.DAY_MS)
    urgent = await ff.create(priority=2)
    assert claimed(await ff.claim(max_tasks=2)) == [urgent, old]


@pytest.mark.parametrize("name", ["retryable", "interrupted", "lease_released", "completed"])
async def test_work_that_comes_back_keeps_its_place(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff)
    ff.clock.advance(1_000)
    younger = await ff.create()
    if name == "completed":
        await ff.store.apply(Replay(execution_id=scene.execution_id))
    assert claimed(await ff.claim(max_tasks=2)) == [scene.execution_id, younger]


async def test_only_named_lanes_are_served_and_their_best_comes_first(ff: Driver) -> None:
    await ff.create(lane_id="c", priority=9)
    low = await ff.create(lane_id="a", priority=1)
    high = await ff.create(lane_id="b", priority=2)
    lowest = await ff.create(lane_id="b", priority=0)
    assert claimed(await ff.claim(lanes=("a", "b"), max_tasks=9)) == [high, low, lowest]
    assert await ff.claim(lanes=("a", "b", "unknown")) == ()


async def test_only_named_kinds_are_served(ff: Driver) -> None:
    await ff.create(execution_kind="x", priority=9)
    wanted = [await ff.create(execution_kind=kind) for kind in ("y", "z")]
    assert sorted(claimed(await ff.claim(kinds=("y", "z"), max_tasks=9))) == sorted(wanted)
    assert await ff.claim(kinds=("y", "z")) == ()


async def test_only_the_named_namespace_is_served(ff: Driver) -> None:
    await ff.create(namespace="x", priority=9)
    wanted = await ff.create(namespace="y")
    assert claimed(await ff.claim(namespace="y", max_tasks=9)) == [wanted]
    assert await ff.claim(namespace="y") == ()


@pytest.mark.parametrize(
    ("required", "offered", "fits"),
    [
        ((), (), True),
        ((), ("gpu",), True),
        (("gpu",), (), False),
        (("gpu",), ("gpu",), True),
        (("gpu",), ("GPU",), False),
        (("gpu",), ("gpu2",), False),
        (("gpu", "eu"), ("gpu",), False),
        (("gpu", "eu"), ("eu", "gpu", "x"), True),
    ],
)
async def test_worker_must_offer_every_required_capability(
    ff: Driver, required: tuple[str, ...], offered: tuple[str, ...], fits: bool
) -> None:
    execution_id = await ff.create(policy=needing(*required))
    assert claimed(await ff.claim(capabilities=offered)) == ([execution_id] if fits else [])


@pytest.mark.parametrize(
    "foreign",
    [{"policy": needing("gpu")}, {"execution_kind": "other"}, {"namespace": "other"}, {"lane_id": "other"}],
)
async def test_foreign_work_never_hides_work(ff: Driver, foreign: dict[str, Any]) -> None:
    for _ in range(300):
        await ff.create(priority=100, **foreign)
    own = await ff.create()
    mine = {"kinds": ("job",), "namespace": "default"}
    assert claimed(await ff.claim(max_tasks=256, **mine)) == [own]
    assert await ff.claim(max_tasks=256, **mine) == ()


async def test_foreign_work_of_many_routes_never_hides_work(ff: Driver) -> None:
    for number in range(150):
        await ff.create(priority=100, execution_kind=f"kind-{number}", policy=needing(f"cap-{number}"))
    own = await ff.create()
    assert claimed(await ff.claim(max_tasks=256)) == [own]


async def test_batch_brings_at_most_what_was_asked_for(ff: Driver) -> None:
    made = [await ff.create() for _ in range(300)]
    first = await ff.claim(max_tasks=limits.MAX_TASKS_PER_CLAIM)
    rest = await ff.claim(max_tasks=limits.MAX_TASKS_PER_CLAIM)
    assert (len(first), len(rest)) == (256, 44)
    assert sorted(claimed(first + rest)) == sorted(made)
    assert len({task.fence.lease_id for task in first + rest}) == 300
    assert len({task.attempt_id for task in first + rest}) == 300
    assert await ff.claim(max_tasks=limits.MAX_TASKS_PER_CLAIM) == ()


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("worker_id", "", "invalid_input"),
        ("worker_id", "a b", "invalid_input"),
        ("worker_id", "a\u2003b", "invalid_input"),
        ("worker_id", "w" * 257, "invalid_input"),
        ("worker_instance_id", "", "invalid_input"),
        ("worker_instance_id", "a\x00", "invalid_input"),
        ("lanes", (), "invalid_input"),
        ("lanes", tuple(f"l{n}" for n in range(65)), "invalid_input"),
        ("lanes", ("ok", ""), "invalid_input"),
        ("kinds", ("",), "invalid_input"),
        ("mint", "nope", "invalid_input"),
        ("max_tasks", 0, "invalid_input"),
        ("max_tasks", 257, "invalid_input"),
        ("lease_ttl_ms", 999, "invalid_input"),
        ("lease_ttl_ms", 3_600_001, "invalid_input"),
        ("claim_id", "c" * 257, "invalid_input"),
        ("capabilities", ("a,b",), "invalid_capabilities"),
        ("capabilities", ("",), "invalid_capabilities"),
        ("capabilities", ("a\u00a0b",), "invalid_capabilities"),
        ("capabilities", tuple(f"c{n}" for n in range(257)), "invalid_capabilities"),
    ],
)
async def test_bad_claims_are_refused(ff: Driver, field: str, value: Any, code: str) -> None:
    await ff.create()
    fields = {"worker_id": "w1", "worker_instance_id": "w1-a", "lanes": ("default",), "mint": new_uuid()}
    await refuses(ff, Claim(**fields | {field: value}), code)


@pytest.mark.parametrize("ttl", [1_000, 3_600_000])
async def test_lease_times_at_their_limits(ff: Driver, ttl: int) -> None:
    await ff.create()
    assert (await ff.claim_one(lease_ttl_ms=ttl)).lease_expires_at == ff.now + ttl


@pytest.mark.parametrize("name", [*scenes.HELD_BACK, "active", "suspended", *scenes.ENDED])
async def test_none_when_nothing_is_claimable(ff: Driver, name: str) -> None:
    await scenes.STAGES[name](ff)
    assert await ff.claim(max_tasks=9, **W2) == ()


@pytest.mark.parametrize(
    ("name", "kind", "index", "same_attempt"),
    [
        ("waiting", "initial", 0, False),
        ("retryable", "retry", 1, False),
        ("interrupted", "resumed", 0, True),
        ("lease_expired", "reclaim", 1, False),
        ("lease_revoked", "reclaim", 1, False),
        ("lease_released", "reclaim", 1, False),
        ("completed", "replay", 1, False),
        ("cancelled_unstarted", "replay", 0, False),
    ],
)
async def test_every_kind_of_work_comes_by_claim(
    ff: Driver, name: str, kind: str, index: int, same_attempt: bool
) -> None:
    scene = await scenes.STAGES[name](ff)
    before = await ff.show(scene.execution_id)
    if name in scenes.ENDED:
        await ff.store.apply(Replay(execution_id=scene.execution_id))
    ff.clock.advance(5)
    task = await ff.claim_one(**W2)
    assert (task.execution_id, task.attempt_type, task.attempt_index) == (scene.execution_id, kind, index)
    assert task.fence.lease_epoch == before.current_lease_epoch + 1
    assert bool(scene.task and task.attempt_id == scene.task.attempt_id) == same_attempt
    run = await ff.show(scene.execution_id)
    assert run.total_attempt_count == before.total_attempt_count + (not same_attempt)
    assert run.started_at == (before.started_at or ff.now)
    assert run.current_worker_instance_id == "w2-a"


async def test_repeated_claim_gets_the_same_tasks(ff: Driver) -> None:
    made = []
    for n in range(6):
        made.append(await ff.create(tags=(("n", str(n)),), priority=n // 3))
        ff.clock.advance(1)
    first = await ff.claim(max_tasks=5, claim_id="c1")
    assert claimed(first) == [*made[3:], *made[:2]]
    ff.clock.advance(LEASE - 1)
    async with untouched(ff, heartbeat=True):
        assert await ff.claim(max_tasks=5, claim_id="c1") == first
    assert claimed(await ff.claim(max_tasks=2, claim_id="c2")) == [
        execution_id for execution_id in made if execution_id not in claimed(first)
    ]


async def test_claim_id_belongs_to_one_worker_instance(ff: Driver) -> None:
    first = await ff.create()
    ff.clock.advance(1)
    second = await ff.create()
    assert claimed(await ff.claim(claim_id="c")) == [first]
    assert claimed(await ff.claim(claim_id="c", worker_instance_id="w1-b")) == [second]


async def test_no_id_of_a_claim_leads_to_another(ff: Driver) -> None:
    """Ids of ended attempts are shown to readers; the fences of the other tasks must not follow from them."""
    for _ in range(3):
        await ff.create()
    mint = new_uuid()
    tasks = await ff.claim(max_tasks=3, mint=mint)
    ids = [mint, *(each for task in tasks for each in (task.fence.lease_id, task.fence.attempt_id))]
    assert len({each[:13] for each in ids}) == 7
    assert len({each[24:] for each in ids}) == 7


async def test_a_repeated_claim_returns_leases_of_its_own_namespace_only(ff: Driver) -> None:
    theirs = await ff.create(namespace="theirs")
    first = await ff.claim_one(claim_id="c", namespace="theirs")
    assert first.execution_id == theirs
    assert await ff.claim(claim_id="c", namespace="ours") == ()
    ours = await ff.create(namespace="ours")
    assert claimed(await ff.claim(claim_id="c", namespace="ours")) == [ours]
    assert claimed(await ff.claim(claim_id="c", namespace="ours")) == [ours]
    assert await ff.claim(claim_id="c", namespace="theirs") == (first,)


@pytest.mark.parametrize("how", ["expired unmarked", "expired", "completed", "released"])
async def test_repeated_claim_never_returns_a_lease_that_is_gone(ff: Driver, how: str) -> None:
    await ff.create()
    task = await ff.claim_one(claim_id="c")
    if how == "completed":
        await ff.complete(task)
    elif how == "released":
        await ff.store.apply(Release(execution_id=task.execution_id, fence=task.fence))
    else:
        ff.clock.advance(LEASE)
        if how == "expired":
            await ff.store.apply(MarkLeaseExpired(execution_id=task.execution_id))
    again = await ff.claim(claim_id="c")
    assert all(other.fence.lease_epoch == 2 for other in again)
    if how in {"expired", "released"}:
        assert [other.attempt_type for other in again] == ["reclaim"]


async def test_repeated_claim_after_a_renewal_is_the_same_lease(ff: Driver) -> None:
    await ff.create()
    task = await ff.claim_one(claim_id="c")
    ff.clock.advance(20_000)
    await ff.store.apply(Renew(execution_id=task.execution_id, fence=task.fence, lease_ttl_ms=LEASE))
    ff.clock.advance(20_000)
    (again,) = await ff.claim(claim_id="c")
    assert again.fence == task.fence


async def test_paused_lane_is_skipped_and_others_are_served(ff: Driver) -> None:
    fresh = await ff.create(lane_id="a", priority=9)
    lost = await scenes.lease_expired(ff, lane_id="a", priority=100)
    other = await ff.create(lane_id="b")
    await ff.store.apply(PauseLane(lane_id="a"))
    assert claimed(await ff.claim(lanes=("a", "b"), max_tasks=9)) == [other]
    assert await ff.claim(lanes=("a",)) == ()
    await ff.store.apply(UnpauseLane(lane_id="a"))
    assert claimed(await ff.claim(lanes=("a", "b"), max_tasks=9)) == [lost.execution_id, fresh]


@pytest.mark.parametrize("worker", ["w1", "w2"])
@pytest.mark.parametrize("name", ["waiting", "lease_expired"])
async def test_work_with_a_live_grant_is_passed_over(ff: Driver, name: str, worker: str) -> None:
    scene = await scenes.STAGES[name](ff, priority=9)
    issue = IssueReclaimGrant if name == "lease_expired" else IssueClaimGrant
    worker_instance_id = f"{worker}-a"
    await ff.store.apply(
        issue(
            execution_id=scene.execution_id,
            worker_id=worker,
            worker_instance_id=worker_instance_id,
            grant_ttl_ms=1_000,
        )
    )
    other = await ff.create()
    ff.clock.advance(1_000)
    assert claimed(await ff.claim(max_tasks=9)) == [other]
    ff.clock.advance(1)
    assert claimed(await ff.claim(max_tasks=9)) == [scene.execution_id]


async def test_many_live_grants_never_hide_work(ff: Driver) -> None:
    for _ in range(300):
        execution_id = await ff.create(priority=9)
        await ff.store.apply(IssueClaimGrant(execution_id=execution_id, grant_ttl_ms=60_000, **W2))
    own = await ff.create()
    assert claimed(await ff.claim()) == [own]


async def test_reclaims_count_and_end_at_the_cap_and_the_claim_goes_on(ff: Driver) -> None:
    worn = await ff.create(priority=9, policy={"max_reclaim_count": 2})
    for expected in (0, 1, 2):
        task = await ff.claim_one()
        assert (task.execution_id, task.attempt_index) == (worn, expected)
        assert (await ff.show(worn)).lease_reclaim_count == expected
        await expire(ff, worn)
    fresh = await ff.create()
    assert claimed(await ff.claim()) == [fresh]
    run = await ff.show(worn)
    assert (run.public_state, run.failure_reason) == ("failed", "max_reclaims_exceeded")
    assert run.completed_at == ff.now
    assert await ff.claim(max_tasks=9) == ()


async def test_much_worn_work_never_hides_work(ff: Driver) -> None:
    worn = [await ff.create(priority=9, policy={"max_reclaim_count": 0}) for _ in range(200)]
    assert len(await ff.claim(max_tasks=200)) == 200
    ff.clock.advance(LEASE)
    await ff.store.apply_many([MarkLeaseExpired(execution_id=execution_id) for execution_id in worn])
    own = await ff.create()
    assert claimed(await ff.claim()) == [own]


async def test_claim_that_only_ends_worn_work_brings_nothing(ff: Driver) -> None:
    scene = await scenes.lease_expired(ff, policy={"max_reclaim_count": 0})
    assert await ff.claim(max_tasks=5) == ()
    assert (await ff.show(scene.execution_id)).public_state == "failed"


async def test_released_leases_do_not_count_for_the_cap(ff: Driver) -> None:
    execution_id = await ff.create(policy={"max_reclaim_count": 0})
    for epoch in (1, 2, 3):
        task = await ff.claim_one()
        assert task.fence.lease_epoch == epoch
        await ff.store.apply(Release(execution_id=execution_id, fence=task.fence))
    assert (await ff.show(execution_id)).lease_reclaim_count == 0


async def test_changed_priority_moves_work_in_the_queue(ff: Driver) -> None:
    first, second = await ff.create(), await ff.create(priority=5)
    await ff.store.apply(ChangePriority(execution_id=first, priority=6))
    assert claimed(await ff.claim(max_tasks=2)) == [first, second]


async def test_delayed_work_is_served_once_promoted(ff: Driver) -> None:
    execution_id = await ff.create(delay_until=ff.now + 10)
    assert await ff.claim() == ()
    ff.clock.advance(10)
    await ff.store.apply(PromoteDelayed(execution_id=execution_id))
    assert claimed(await ff.claim()) == [execution_id]
