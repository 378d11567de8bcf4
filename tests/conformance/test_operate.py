"""What operators do: priority, tags, pause, block, and lanes; and the progress that workers report."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model import limits
from flowfabric.model.operations.lease import Updated, UpdateProgress
from flowfabric.model.operations.operate import (
    Block,
    Blocked,
    ChangePriority,
    Pause,
    Paused,
    PriorityChanged,
    SetTags,
    TagsSet,
    Unblock,
    Unpause,
    Unpaused,
)
from flowfabric.model.operations.timer import ExpireExecution
from flowfabric.model.state import Public
from support import scenes
from support.driver import Driver
from support.expect import refuses, untouched

READY = ("eligible_now", "waiting_for_worker")
HELD = ("blocked_by_operator", "paused_by_operator")
BLOCKS = {
    "waiting_for_budget": ("blocked_by_budget", "rate_limited"),
    "waiting_for_quota": ("blocked_by_quota", "rate_limited"),
    "waiting_for_capable_worker": ("blocked_by_route", "waiting"),
    "paused_by_operator": ("blocked_by_operator", "waiting"),
    "paused_by_policy": ("blocked_by_lane_state", "waiting"),
}


async def why(ff: Driver, execution_id: str) -> tuple[str, str]:
    run = await ff.show(execution_id)
    return run.eligibility_state, run.blocking_reason


@pytest.mark.parametrize("name", scenes.LIVE)
async def test_priority_changes_in_every_live_state(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff, priority=3)
    before = await ff.vector(scene.execution_id)
    command = ChangePriority(execution_id=scene.execution_id, priority=8, actor="ann")
    assert await ff.store.apply(command) == PriorityChanged(3, 8)
    assert (await ff.show(scene.execution_id)).priority == 8
    assert await ff.vector(scene.execution_id) == before
    last = (await ff.history(scene.execution_id))[-1]
    assert (last.event, last.actor) == ("priority_changed", "ann")


@pytest.mark.parametrize("name", scenes.ENDED)
async def test_priority_of_the_ended_is_fixed(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff)
    await refuses(ff, ChangePriority(execution_id=scene.execution_id, priority=8), "execution_not_eligible")


@pytest.mark.parametrize(("given", "stored"), [(-1, 0), (9_001, 9_000), (2**53 - 1, 9_000)])
async def test_changed_priority_is_clamped(ff: Driver, given: int, stored: int) -> None:
    execution_id = await ff.create(priority=3)
    command = ChangePriority(execution_id=execution_id, priority=given)
    assert await ff.store.apply(command) == PriorityChanged(3, stored)


@pytest.mark.parametrize("given", [2**53, 1.5, True, "9"])
async def test_priority_must_be_an_integer(ff: Driver, given: Any) -> None:
    execution_id = await ff.create()
    await refuses(ff, ChangePriority(execution_id=execution_id, priority=given), "invalid_input")


@pytest.mark.parametrize("name", ["waiting", "lease_expired", "lease_revoked"])
async def test_changed_priority_counts_for_whatever_is_claimable(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff)
    await ff.create(priority=5)
    await ff.store.apply(ChangePriority(execution_id=scene.execution_id, priority=6))
    assert (await ff.claim_one()).execution_id == scene.execution_id


async def test_priority_changed_while_held_back_counts_later(ff: Driver) -> None:
    scene = await scenes.paused(ff)
    await ff.create(priority=5)
    await ff.store.apply(ChangePriority(execution_id=scene.execution_id, priority=6))
    await ff.store.apply(Unpause(execution_id=scene.execution_id))
    assert (await ff.claim_one()).execution_id == scene.execution_id


@pytest.mark.parametrize("name", ["waiting", "active", "suspended", *scenes.ENDED])
async def test_tags_are_merged_in_every_phase(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff, tags=(("a", "1"), ("b", "2")))
    command = SetTags(execution_id=scene.execution_id, tags=(("b", "3"), ("c.d-e_f", "")))
    assert await ff.store.apply(command) == TagsSet(2)
    assert (await ff.show(scene.execution_id)).tags == (("a", "1"), ("b", "3"), ("c.d-e_f", ""))
    assert (await ff.events(scene.execution_id))[-1] == "tagged"


@pytest.mark.parametrize("key", ["a", "a1", "a-b", "a_b", "a.b.c", "a.1", "a.-", "x" * 128])
async def test_good_tag_keys(ff: Driver, key: str) -> None:
    execution_id = await ff.create()
    assert await ff.store.apply(SetTags(execution_id=execution_id, tags=((key, "v"),))) == TagsSet(1)


@pytest.mark.parametrize("key", ["", "A", "1", "-a", "_a", "a.", ".a", "a..b", "a b", "a/b", "\u00e9", "a\n"])
async def test_bad_tag_keys_are_named_and_nothing_is_written(ff: Driver, key: str) -> None:
    execution_id = await ff.create()
    tags = tuple(sorted([("a", "v"), (key, "v")]))
    await refuses(ff, SetTags(execution_id=execution_id, tags=tags), "invalid_tag_key", key)


@pytest.mark.parametrize(
    "tags", [(), (("a", "x" * (limits.MAX_TAG_VALUE_BYTES + 1)),), tuple((f"t{n:02}", "") for n in range(65))]
)
async def test_bad_tags_are_refused(ff: Driver, tags: tuple[tuple[str, str], ...]) -> None:
    execution_id = await ff.create()
    await refuses(ff, SetTags(execution_id=execution_id, tags=tags), "invalid_input")


async def test_no_more_than_sixty_four_tags_in_all(ff: Driver) -> None:
    execution_id = await ff.create(tags=tuple((f"t{n:02}", "") for n in range(63)))
    await refuses(ff, SetTags(execution_id=execution_id, tags=(("u1", ""), ("u2", ""))), "invalid_input")
    await ff.store.apply(SetTags(execution_id=execution_id, tags=(("t00", "new"), ("u1", ""))))
    assert len((await ff.show(execution_id)).tags) == 64
    await ff.store.apply(SetTags(execution_id=execution_id, tags=(("t00", "newer"),)))


async def test_progress_keeps_what_is_not_given(ff: Driver) -> None:
    task = await ff.running()
    fields: dict[str, Any] = {"execution_id": task.execution_id, "fence": task.fence}
    steps: list[tuple[dict[str, Any], tuple[int, str]]] = [
        ({"pct": 0, "message": "begun"}, (0, "begun")),
        ({"pct": 100}, (100, "begun")),
        ({"message": "x"}, (100, "x")),
    ]
    for change, expected in steps:
        ff.clock.advance(10)
        assert await ff.store.apply(UpdateProgress(**fields, **change)) == Updated()
        run = await ff.show(task.execution_id)
        assert (run.progress_pct, run.progress_message, run.progress_updated_at) == (*expected, ff.now)
    ff.clock.advance(10)
    await ff.store.apply(UpdateProgress(**fields))
    assert (await ff.show(task.execution_id)).progress_updated_at == ff.now
    assert await ff.events(task.execution_id) == ["created", "claimed"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("pct", -1), ("pct", 101), ("pct", 1.5), ("message", "m" * (limits.MAX_TEXT_BYTES + 1))],
)
async def test_bad_progress_is_refused(ff: Driver, field: str, value: Any) -> None:
    task = await ff.running()
    command = UpdateProgress(**{"execution_id": task.execution_id, "fence": task.fence, field: value})
    await refuses(ff, command, "invalid_input", field=field)


@pytest.mark.parametrize("name", scenes.RUNNABLE)
async def test_pause_holds_back_any_runnable_execution(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff)
    before = await ff.show(scene.execution_id)
    if name != "paused":
        command = Pause(execution_id=scene.execution_id, reason="hold on", actor="ann")
        assert await ff.store.apply(command) == Paused()
        last = (await ff.history(scene.execution_id))[-1]
        assert (last.event, last.reason, last.actor) == ("paused", "hold on", "ann")
        assert (await ff.show(scene.execution_id)).paused_at == ff.now
    assert await ff.vector(scene.execution_id) == (
        "runnable",
        "unowned",
        *HELD,
        "none",
        before.attempt_state,
        "waiting",
    )
    assert await ff.claim() == ()
    async with untouched(ff):
        assert await ff.store.apply(Pause(execution_id=scene.execution_id)) == Paused()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("delayed", "waiting_for_delay"),
        ("backoff", "waiting_for_retry_backoff"),
        ("worker_delayed", "waiting_for_delay"),
        ("resume_delayed", "waiting_for_resume_delay"),
    ],
)
@pytest.mark.parametrize("over", [False, True])
async def test_unpaused_work_waits_for_what_is_left_of_its_delay(
    ff: Driver, name: str, reason: str, over: bool
) -> None:
    scene = await scenes.STAGES[name](ff)
    before = await ff.show(scene.execution_id)
    await ff.store.apply(Pause(execution_id=scene.execution_id))
    ff.clock.now = before.delay_until - (not over)
    assert await ff.store.apply(Unpause(execution_id=scene.execution_id)) == Unpaused()
    run = await ff.show(scene.execution_id)
    expected = (
        (*READY, "waiting", 0) if over else ("not_eligible_until_time", reason, "delayed", before.delay_until)
    )
    assert (run.eligibility_state, run.blocking_reason, run.public_state, run.delay_until) == expected
    assert (run.attempt_state, run.paused_at) == (before.attempt_state, 0)
    assert (await ff.events(scene.execution_id))[-1] == "unpaused"


@pytest.mark.parametrize("name", [*scenes.ELIGIBLE, "budget_blocked", "quota_blocked"])
async def test_unpaused_work_is_eligible_otherwise(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff)
    await ff.store.apply(Pause(execution_id=scene.execution_id))
    await ff.store.apply(Unpause(execution_id=scene.execution_id))
    assert await why(ff, scene.execution_id) == READY
    assert (await ff.claim_one()).execution_id == scene.execution_id


async def test_unpausing_what_is_not_paused_does_nothing(ff: Driver) -> None:
    for name in ("waiting", "delayed", "quota_blocked"):
        scene = await scenes.STAGES[name](ff)
        async with untouched(ff):
            assert await ff.store.apply(Unpause(execution_id=scene.execution_id)) == Unpaused()


@pytest.mark.parametrize("name", [*scenes.ACTIVE, "suspended", *scenes.ENDED])
async def test_only_runnable_executions_can_be_paused(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff)
    await refuses(ff, Pause(execution_id=scene.execution_id), "execution_not_eligible")
    await refuses(ff, Unpause(execution_id=scene.execution_id), "execution_not_eligible")


async def test_paused_work_still_meets_its_deadline(ff: Driver) -> None:
    scene = await scenes.paused(ff, execution_deadline_at=ff.now + 10)
    ff.clock.advance(10)
    await ff.store.apply(ExpireExecution(execution_id=scene.execution_id, reason="execution_deadline"))
    assert (await ff.show(scene.execution_id)).public_state == "expired"


@pytest.mark.parametrize("name", scenes.ELIGIBLE)
@pytest.mark.parametrize("reason", BLOCKS)
async def test_block_and_unblock(ff: Driver, reason: str, name: str) -> None:
    scene = await scenes.STAGES[name](ff)
    execution_id = scene.execution_id
    before = await ff.vector(execution_id)
    eligibility, public = BLOCKS[reason]
    command = Block(execution_id=execution_id, blocking_reason=reason, blocking_detail="because")
    assert await ff.store.apply(command) == Blocked(Public(public))
    run = await ff.show(execution_id)
    assert (run.eligibility_state, run.blocking_reason, run.public_state) == (eligibility, reason, public)
    assert (run.blocking_detail, run.blocked_at, run.attempt_state) == ("because", ff.now, before[5])
    assert await ff.claim() == ()
    wrong = Unblock(execution_id=execution_id, expected_blocking_reason="waiting_for_children")
    await refuses(ff, wrong, "execution_not_eligible")
    unblock = Unblock(execution_id=execution_id, expected_blocking_reason=reason)
    assert await ff.store.apply(unblock) == Blocked(Public.WAITING)
    assert await ff.vector(execution_id) == before
    assert (await ff.show(execution_id)).blocking_detail == ""
    assert (await ff.events(execution_id))[-2:] == ["blocked", "unblocked"]
    assert (await ff.claim_one()).execution_id == execution_id


@pytest.mark.parametrize("reason", BLOCKS)
async def test_unblock_without_a_guard(ff: Driver, reason: str) -> None:
    execution_id = await ff.create()
    await ff.store.apply(Block(execution_id=execution_id, blocking_reason=reason))
    assert await ff.store.apply(Unblock(execution_id=execution_id)) == Blocked(Public.WAITING)


@pytest.mark.parametrize(
    "reason", ["", "none", "waiting_for_worker", "waiting_for_delay", "waiting_for_signal", "mood"]
)
async def test_only_some_reasons_block(ff: Driver, reason: str) -> None:
    execution_id = await ff.create()
    command = Block(execution_id=execution_id, blocking_reason=reason)
    await refuses(ff, command, "invalid_blocking_reason")


@pytest.mark.parametrize("reason", ["waiting_for_budget", "mood"])
@pytest.mark.parametrize("name", [name for name in scenes.LIVE if name not in scenes.ELIGIBLE])
async def test_only_eligible_work_can_be_blocked(ff: Driver, name: str, reason: str) -> None:
    scene = await scenes.STAGES[name](ff)
    command = Block(execution_id=scene.execution_id, blocking_reason=reason)
    code = "execution_not_eligible"
    if reason == "mood" and name in scenes.HELD_BACK:
        code = "invalid_blocking_reason"
    await refuses(ff, command, code)


@pytest.mark.parametrize("reason", ["waiting_for_budget", "mood"])
@pytest.mark.parametrize(("name", "outcome"), [("completed", "success"), ("cancelled", "cancelled")])
async def test_ended_work_cannot_be_blocked(ff: Driver, name: str, outcome: str, reason: str) -> None:
    scene = await scenes.STAGES[name](ff)
    command = Block(execution_id=scene.execution_id, blocking_reason=reason)
    details = (outcome, "1", "terminal", scene.fence.attempt_id)
    await refuses(ff, command, "execution_not_active", *details)


@pytest.mark.parametrize(
    "name",
    [*scenes.ELIGIBLE, "delayed", "backoff", "worker_delayed", *scenes.ACTIVE, "suspended", *scenes.ENDED],
)
async def test_only_blocked_work_can_be_unblocked(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff)
    await refuses(ff, Unblock(execution_id=scene.execution_id), "execution_not_eligible")


@pytest.mark.parametrize(
    "command",
    [
        lambda id_: ChangePriority(execution_id=id_, priority=1),
        lambda id_: SetTags(execution_id=id_, tags=(("a", "1"),)),
        lambda id_: Pause(execution_id=id_),
        lambda id_: Unpause(execution_id=id_),
        lambda id_: Block(execution_id=id_, blocking_reason="waiting_for_budget"),
        lambda id_: Unblock(execution_id=id_),
    ],
)
async def test_unknown_execution(ff: Driver, command: Any) -> None:
    await refuses(ff, command(ff.new_id()), "execution_not_found")
