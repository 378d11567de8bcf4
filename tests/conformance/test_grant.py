"""Grants: promising work to one worker, and taking it by name."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model.operations.grant import (
    ClaimGranted,
    ClaimResumed,
    GrantAndClaim,
    Granted,
    IssueClaimGrant,
    IssueReclaimGrant,
    Reclaim,
)
from flowfabric.model.operations.lane import PauseLane, UnpauseLane
from flowfabric.model.operations.operate import Pause, Replay
from flowfabric.model.operations.read import ListAttempts
from flowfabric.model.operations.stream import AppendFrames, FrameInput, ReadStream
from flowfabric.model.operations.timer import MarkLeaseExpired
from support import scenes
from support.driver import LEASE, Driver, new_uuid
from support.expect import refused, refuses
from support.scenes import RETRIES, Scene

W2: dict[str, Any] = {"worker_id": "w2", "worker_instance_id": "w2-a"}
TTL = 5_000
MANY = tuple(f"c{n:03}" for n in range(257))
BIG = ("x" * 2_048, "y" * 2_048)


def needing(*capabilities: str) -> dict[str, Any]:
    return {"routing_requirements": {"required_capabilities": list(capabilities)}}


def grant(execution_id: str, **fields: Any) -> IssueClaimGrant:
    return IssueClaimGrant(**W2 | {"execution_id": execution_id, "grant_ttl_ms": TTL} | fields)


def regrant(execution_id: str, **fields: Any) -> IssueReclaimGrant:
    return IssueReclaimGrant(**W2 | {"execution_id": execution_id, "grant_ttl_ms": TTL} | fields)


def take(kind: type[Any], execution_id: str, **fields: Any) -> Any:
    """Build a claim by name, with fresh ids."""
    ids = {"execution_id": execution_id, "lease_id": new_uuid()}
    if kind is not ClaimResumed:
        ids["attempt_id"] = new_uuid()
    return kind(**ids | W2 | fields)


async def test_grant_promises_eligible_work_and_changes_no_state(ff: Driver) -> None:
    execution_id = await ff.create(lane_id="gpu")
    before = await ff.vector(execution_id)
    granted = await ff.store.apply(grant(execution_id, lane_id="gpu"))
    assert granted == Granted(execution_id, "gpu", ff.now + TTL)
    assert await ff.vector(execution_id) == before


@pytest.mark.parametrize("name", scenes.ELIGIBLE)
async def test_every_eligible_execution_can_be_granted(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff)
    assert isinstance(await ff.store.apply(grant(scene.execution_id)), Granted)


@pytest.mark.parametrize("name", [name for name in scenes.ALL if name not in scenes.ELIGIBLE])
async def test_only_eligible_work_can_be_granted(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff, policy=RETRIES | needing())
    await refuses(ff, grant(scene.execution_id), "execution_not_eligible")


async def test_grants_are_no_way_around_a_paused_lane(ff: Driver) -> None:
    execution_id = await ff.create()
    await ff.store.apply(PauseLane(lane_id="default"))
    await refuses(ff, grant(execution_id), "execution_not_eligible")
    await ff.store.apply(UnpauseLane(lane_id="default"))
    assert isinstance(await ff.store.apply(grant(execution_id)), Granted)


@pytest.mark.parametrize("name", [name for name in scenes.ALL if name not in scenes.LEASE_GONE])
async def test_only_work_whose_lease_is_gone_can_be_granted_for_reclaim(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff)
    await refuses(ff, regrant(scene.execution_id), "execution_not_reclaimable")
    await refuses(ff, take(Reclaim, scene.execution_id), "execution_not_reclaimable")


@pytest.mark.parametrize("name", scenes.LEASE_GONE)
async def test_reclaim_grant(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff)
    before = await ff.vector(scene.execution_id)
    granted = await ff.store.apply(regrant(scene.execution_id))
    assert granted == Granted(scene.execution_id, "default", ff.now + TTL)
    assert await ff.vector(scene.execution_id) == before


@pytest.mark.parametrize(("name", "issue"), [("waiting", grant), ("lease_expired", regrant)])
class TestIssuing:
    async def test_unknown_execution(self, ff: Driver, name: str, issue: Any) -> None:
        await refuses(ff, issue(ff.new_id()), "execution_not_found")

    @pytest.mark.parametrize("worker", ["w2", "w3"])
    async def test_one_live_grant_at_a_time(self, ff: Driver, name: str, issue: Any, worker: str) -> None:
        scene = await scenes.STAGES[name](ff, policy=needing())
        await ff.store.apply(issue(scene.execution_id))
        ff.clock.advance(TTL)
        await refuses(ff, issue(scene.execution_id, worker_id=worker), "grant_already_exists")
        ff.clock.advance(1)
        granted = await ff.store.apply(issue(scene.execution_id, worker_id=worker))
        assert granted.expires_at == ff.now + TTL

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("grant_ttl_ms", 0),
            ("grant_ttl_ms", 60_001),
            ("grant_ttl_ms", "5"),
            ("worker_id", ""),
            ("worker_instance_id", "a b"),
            ("lane_id", "another"),
        ],
    )
    async def test_bad_fields(self, ff: Driver, name: str, issue: Any, field: str, value: Any) -> None:
        scene = await scenes.STAGES[name](ff)
        await refuses(ff, issue(scene.execution_id, **{field: value}), "invalid_input")

    async def test_longest_grant(self, ff: Driver, name: str, issue: Any) -> None:
        scene = await scenes.STAGES[name](ff)
        granted = await ff.store.apply(issue(scene.execution_id, grant_ttl_ms=60_000))
        assert granted.expires_at == ff.now + 60_000

    @pytest.mark.parametrize(
        ("offered", "code", "detail"),
        [
            ((), "capability_mismatch", "cuda,gpu"),
            (("cuda", "GPU"), "capability_mismatch", "gpu"),
            (MANY, "invalid_capabilities", "worker:too_many_tokens"),
            (BIG, "invalid_capabilities", "worker:too_many_bytes"),
        ],
    )
    async def test_capabilities(
        self, ff: Driver, name: str, issue: Any, offered: tuple[str, ...], code: str, detail: str
    ) -> None:
        scene = await self._needing_gpu(ff, name)
        await refuses(ff, issue(scene.execution_id, worker_capabilities=offered), code, detail)

    async def test_capable_worker(self, ff: Driver, name: str, issue: Any) -> None:
        scene = await self._needing_gpu(ff, name)
        command = issue(scene.execution_id, worker_capabilities=("cuda", "gpu", "x"))
        assert isinstance(await ff.store.apply(command), Granted)

    async def test_live_grant_is_noticed_before_capabilities(self, ff: Driver, name: str, issue: Any) -> None:
        scene = await self._needing_gpu(ff, name)
        await ff.store.apply(issue(scene.execution_id, worker_capabilities=("cuda", "gpu")))
        await refuses(ff, issue(scene.execution_id), "grant_already_exists")

    @staticmethod
    async def _needing_gpu(ff: Driver, name: str) -> Scene:
        execution_id = await ff.create(policy=needing("gpu", "cuda"))
        if name == "lease_expired":
            await ff.claim_one(capabilities=("cuda", "gpu"))
            ff.clock.advance(LEASE)
            await ff.store.apply(MarkLeaseExpired(execution_id=execution_id))
        return Scene(execution_id)


async def test_state_is_judged_before_capabilities(ff: Driver) -> None:
    execution_id = await ff.create(policy=needing("gpu"), delay_until=ff.now + 1)
    await refuses(ff, grant(execution_id), "execution_not_eligible")


@pytest.mark.parametrize(("name", "index", "kind"), [("waiting", 0, "initial"), ("retryable", 1, "retry")])
async def test_claim_by_grant(ff: Driver, name: str, index: int, kind: str) -> None:
    scene = await scenes.STAGES[name](ff, input_payload=b"in")
    epoch = (await ff.show(scene.execution_id)).current_lease_epoch
    await ff.store.apply(grant(scene.execution_id))
    command = take(ClaimGranted, scene.execution_id, lease_ttl_ms=7_000)
    answer = await ff.store.apply(command)
    assert (answer.lease_id, answer.attempt_id) == (command.lease_id, command.attempt_id)
    assert (answer.lease_epoch, answer.lease_expires_at) == (epoch + 1, ff.now + 7_000)
    assert (answer.attempt_index, answer.attempt_type) == (index, kind)
    assert (answer.task.fence.lease_id, answer.task.input) == (command.lease_id, b"in")
    await ff.complete(answer.task)
    assert (await ff.show(scene.execution_id)).public_state == "completed"


async def test_grant_is_used_up_by_its_claim(ff: Driver) -> None:
    execution_id = await ff.create()
    await ff.store.apply(grant(execution_id))
    await ff.store.apply(take(ClaimGranted, execution_id))
    await refuses(ff, take(ClaimGranted, execution_id), "execution_not_leaseable")
    ff.clock.advance(LEASE)
    await ff.store.apply(MarkLeaseExpired(execution_id=execution_id))
    assert isinstance(await ff.store.apply(regrant(execution_id)), Granted)


async def test_another_instance_of_the_granted_worker_may_claim(ff: Driver) -> None:
    execution_id = await ff.create()
    await ff.store.apply(grant(execution_id))
    answer = await ff.store.apply(take(ClaimGranted, execution_id, worker_instance_id="w2-b"))
    assert answer.task.worker_instance_id == "w2-b"


CLAIMS = [
    ("waiting", grant, ClaimGranted),
    ("interrupted", grant, ClaimResumed),
    ("lease_expired", regrant, Reclaim),
]


@pytest.mark.parametrize(("name", "issue", "kind"), CLAIMS)
class TestClaiming:
    async def test_unknown_execution(self, ff: Driver, name: str, issue: Any, kind: Any) -> None:
        await refuses(ff, take(kind, ff.new_id()), "execution_not_found")

    async def test_without_a_grant(self, ff: Driver, name: str, issue: Any, kind: Any) -> None:
        scene = await scenes.STAGES[name](ff)
        await refuses(ff, take(kind, scene.execution_id), "invalid_claim_grant")

    async def test_with_the_grant_of_another_worker(
        self, ff: Driver, name: str, issue: Any, kind: Any
    ) -> None:
        scene = await scenes.STAGES[name](ff)
        await ff.store.apply(issue(scene.execution_id, worker_id="w3"))
        await refuses(ff, take(kind, scene.execution_id), "invalid_claim_grant")
        ff.clock.advance(TTL + 1)
        await refuses(ff, take(kind, scene.execution_id), "invalid_claim_grant")

    async def test_at_the_last_moment(self, ff: Driver, name: str, issue: Any, kind: Any) -> None:
        scene = await scenes.STAGES[name](ff)
        await ff.store.apply(issue(scene.execution_id))
        ff.clock.advance(TTL)
        answer = await ff.store.apply(take(kind, scene.execution_id))
        assert answer.lease_expires_at == ff.now + LEASE

    async def test_too_late_and_the_grant_is_gone(self, ff: Driver, name: str, issue: Any, kind: Any) -> None:
        scene = await scenes.STAGES[name](ff)
        before = await ff.vector(scene.execution_id)
        await ff.store.apply(issue(scene.execution_id))
        ff.clock.advance(TTL + 1)
        with refused("claim_grant_expired"):
            await ff.store.apply(take(kind, scene.execution_id))
        assert (await ff.show(scene.execution_id)).grant == ()
        assert await ff.vector(scene.execution_id) == before
        await refuses(ff, take(kind, scene.execution_id), "invalid_claim_grant")

    @pytest.mark.parametrize(
        ("field", "value"),
        [("lease_id", "nope"), ("lease_ttl_ms", 999), ("lease_ttl_ms", 3_600_001), ("worker_id", "")],
    )
    async def test_bad_fields(
        self, ff: Driver, name: str, issue: Any, kind: Any, field: str, value: Any
    ) -> None:
        scene = await scenes.STAGES[name](ff)
        await ff.store.apply(issue(scene.execution_id))
        await refuses(ff, take(kind, scene.execution_id, **{field: value}), "invalid_input")


@pytest.mark.parametrize("name", [*scenes.HELD_BACK, *scenes.ACTIVE, "suspended", *scenes.ENDED])
async def test_claim_by_grant_needs_leaseable_work(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff)
    await refuses(ff, take(ClaimGranted, scene.execution_id), "execution_not_leaseable")


@pytest.mark.parametrize("name", [*scenes.ACTIVE, "suspended", *scenes.ENDED])
async def test_resumed_claim_needs_runnable_work(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff)
    await refuses(ff, take(ClaimResumed, scene.execution_id), "execution_not_leaseable")


@pytest.mark.parametrize("kind", [ClaimGranted, ClaimResumed])
@pytest.mark.parametrize("name", ["waiting", "interrupted"])
async def test_grant_does_not_outweigh_a_pause(ff: Driver, name: str, kind: Any) -> None:
    scene = await scenes.STAGES[name](ff)
    await ff.store.apply(grant(scene.execution_id))
    await ff.store.apply(Pause(execution_id=scene.execution_id))
    codes = {"waiting": {ClaimResumed: "not_a_resumed_execution"}, "interrupted": {}}
    await refuses(ff, take(kind, scene.execution_id), codes[name].get(kind, "execution_not_leaseable"))


async def test_interrupted_attempt_is_not_claimed_as_new_and_keeps_its_grant(ff: Driver) -> None:
    scene = await scenes.interrupted(ff)
    assert scene.task
    await ff.store.apply(grant(scene.execution_id))
    await refuses(ff, take(ClaimGranted, scene.execution_id), "use_claim_resumed_execution")
    answer = await ff.store.apply(take(ClaimResumed, scene.execution_id))
    assert (answer.attempt_id, answer.attempt_index) == (scene.task.attempt_id, 0)
    assert (answer.attempt_type, answer.lease_epoch) == ("resumed", 2)


@pytest.mark.parametrize("name", ["waiting", "retryable"])
async def test_new_attempt_is_not_claimed_as_resumed(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff)
    await ff.store.apply(grant(scene.execution_id))
    await refuses(ff, take(ClaimResumed, scene.execution_id), "not_a_resumed_execution")


@pytest.mark.parametrize(
    ("name", "kind", "index", "reason"),
    [
        ("waiting", "initial", 0, "issue_grant_and_claim"),
        ("retryable", "retry", 1, "issue_grant_and_claim"),
        ("interrupted", "resumed", 0, "issue_grant_and_claim_resumed"),
        ("worker_delayed", "resumed", 0, "issue_grant_and_claim_resumed"),
    ],
)
async def test_operator_takes_one_execution_by_name(
    ff: Driver, name: str, kind: str, index: int, reason: str
) -> None:
    scene = await scenes.STAGES[name](ff)
    answer = await ff.store.apply(take(GrantAndClaim, scene.execution_id))
    assert (answer.attempt_type, answer.attempt_index) == (kind, index)
    assert (await ff.show(scene.execution_id)).ownership_state == "leased"
    assert (await ff.history(scene.execution_id))[-1].reason == reason


async def test_operator_needs_no_capabilities(ff: Driver) -> None:
    execution_id = await ff.create(policy=needing("gpu"))
    assert (await ff.store.apply(take(GrantAndClaim, execution_id))).lease_epoch == 1


@pytest.mark.parametrize(
    ("name", "code"),
    [
        *((name, "execution_not_eligible") for name in (*scenes.ACTIVE, "suspended", *scenes.ENDED)),
        *(
            (name, "execution_not_in_eligible_set")
            for name in ("delayed", "backoff", "paused", "quota_blocked")
        ),
    ],
)
async def test_operator_cannot_take_what_is_not_to_be_had(ff: Driver, name: str, code: str) -> None:
    scene = await scenes.STAGES[name](ff)
    await refuses(ff, take(GrantAndClaim, scene.execution_id), code)


async def test_operator_respects_a_live_grant(ff: Driver) -> None:
    execution_id = await ff.create()
    await ff.store.apply(grant(execution_id))
    await refuses(ff, take(GrantAndClaim, execution_id), "grant_already_exists")
    ff.clock.advance(TTL + 1)
    assert (await ff.store.apply(take(GrantAndClaim, execution_id))).lease_epoch == 1
    await refuses(ff, take(GrantAndClaim, ff.new_id()), "execution_not_found")


@pytest.mark.parametrize(
    ("name", "reason"), [("lease_expired", "lease_expired"), ("lease_revoked", "lease_revoked")]
)
async def test_reclaim_starts_a_new_attempt(ff: Driver, name: str, reason: str) -> None:
    scene = await scenes.STAGES[name](ff)
    await ff.store.apply(regrant(scene.execution_id))
    answer = await ff.store.apply(take(Reclaim, scene.execution_id))
    assert (answer.attempt_index, answer.attempt_type, answer.lease_epoch) == (1, "reclaim", 2)
    old, new = await ff.store.read(ListAttempts(execution_id=scene.execution_id))
    assert (old.life, old.failure_reason, old.ended_at) == ("interrupted_reclaimed", reason, ff.now)
    assert (new.life, new.kind, new.lineage_reason, new.previous_index) == ("started", "reclaim", reason, 0)
    run = await ff.show(scene.execution_id)
    assert (run.lease_reclaim_count, run.total_attempt_count) == (1, 2)
    assert (run.lease_expired_at, run.lease_revoked_at, run.lease_revoke_reason) == (0, 0, "")
    last = (await ff.history(scene.execution_id))[-1]
    assert (last.event, last.reason, last.attempt_index, last.lease_epoch) == ("reclaimed", reason, 1, 2)
    await refuses(ff, take(Reclaim, scene.execution_id), "execution_not_reclaimable")


@pytest.mark.parametrize(
    ("policy", "call", "cap"),
    [
        ({"max_reclaim_count": 1}, None, 1),
        ({"max_reclaim_count": 1}, 5, 1),
        ({"max_reclaim_count": 1, "timeout_policy": {"max_reclaim_count": 3}}, None, 1),
        ({"timeout_policy": {"max_reclaim_count": 2}}, None, 2),
        ({"max_reclaim_count": 0}, None, 0),
        ({}, None, 100),
    ],
)
async def test_reclaim_ends_the_execution_at_its_cap(
    ff: Driver, policy: dict[str, Any], call: int | None, cap: int
) -> None:
    scene = await scenes.active(ff, policy=policy)
    assert scene.task
    execution_id, task = scene.execution_id, scene.task
    for _ in range(cap):
        ff.clock.advance(LEASE)
        await ff.store.apply(MarkLeaseExpired(execution_id=execution_id))
        await ff.store.apply(regrant(execution_id))
        task = (await ff.store.apply(take(Reclaim, execution_id, max_reclaim_count=call))).task
    frames = AppendFrames(execution_id=execution_id, fence=task.fence, frames=(FrameInput(b"x"),))
    await ff.store.apply(frames)
    ff.clock.advance(LEASE)
    await ff.store.apply(MarkLeaseExpired(execution_id=execution_id))
    with refused("max_retries_exhausted", str(cap)):
        await ff.store.apply(take(Reclaim, execution_id, max_reclaim_count=call))
    run = await ff.show(execution_id)
    assert (run.public_state, run.failure_reason) == ("failed", "max_reclaims_exceeded")
    assert (run.completed_at, run.grant) == (ff.now, ())
    attempts = await ff.store.read(ListAttempts(execution_id=execution_id))
    assert len(attempts) == cap + 1
    assert {attempt.life for attempt in attempts} == {"interrupted_reclaimed"}
    stream = await ff.store.read(ReadStream(execution_id=execution_id, attempt_index=cap))
    assert stream.closed_reason == "reclaimed"
    last = (await ff.history(execution_id))[-1]
    assert (last.event, last.reason) == ("failed", "max_reclaims_exceeded")


async def test_cap_drops_the_grant(ff: Driver) -> None:
    scene = await scenes.lease_expired(ff, policy={"max_reclaim_count": 0})
    await ff.store.apply(regrant(scene.execution_id))
    with refused("max_retries_exhausted", "0"):
        await ff.store.apply(take(Reclaim, scene.execution_id))
    assert (await ff.show(scene.execution_id)).grant == ()
    await ff.store.apply(Replay(execution_id=scene.execution_id))
    assert (await ff.claim_one(**W2)).execution_id == scene.execution_id
