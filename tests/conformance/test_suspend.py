"""Suspending: what it leaves behind, its defaults and keys, and waits that are over before they begin."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model.command import NO_FENCE
from flowfabric.model.conditions import Condition, list_condition, operator_only, timeout_only
from flowfabric.model.limits import SUSPEND_MEMO_MAX_MS
from flowfabric.model.operations.lease import Renew
from flowfabric.model.operations.operate import SetTags
from flowfabric.model.operations.read import ListAttempts
from flowfabric.model.operations.suspend import SatisfiedAtOnce
from flowfabric.model.operations.suspend_resume import GetSuspension
from flowfabric.model.state import Life
from support.driver import Driver, new_uuid
from support.waiting import (
    BUFFERED,
    HELD,
    SATISFIED,
    accepted,
    all_of,
    by_name,
    count,
    delivery,
    fresh,
    held,
    let_go,
    open_pending,
    open_waitpoints,
    pending,
    refused,
    stored_waitpoint,
    suspend,
    suspended,
    suspension,
    suspension_record,
    tree,
)


async def test_the_lease_is_given_back_and_the_attempt_kept(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    ff.clock.advance(7)
    command = suspension(
        task, requested_by="policy", continuation_metadata_pointer="s3://x", resume_policy_json='{"a":1}'
    )
    answer = await ff.store.apply(command)
    assert await ff.vector(task.execution_id) == held("waiting_for_signal")
    run = await ff.show(task.execution_id)
    assert (run.current_lease_id, run.current_worker_id, run.current_worker_instance_id) == ("", "", "")
    assert (run.lease_expires_at, run.current_lease_epoch) == (0, task.fence.lease_epoch)
    assert run.current_attempt_id == task.attempt_id
    assert run.current_suspension_id == answer.suspension_id == command.suspension_id
    assert run.current_waitpoint_id == answer.waitpoint.waitpoint_id == command.waitpoints[0].waitpoint_id
    (attempt,) = await ff.store.read(ListAttempts(execution_id=task.execution_id))
    assert (attempt.life, attempt.suspended_at) == (Life.SUSPENDED, ff.now)
    assert attempt.suspension_id == command.suspension_id
    record = await suspension_record(ff, task.execution_id)
    assert (record.attempt_index, record.created_at, record.requested_by) == (0, ff.now, "policy")
    assert (record.continuation_metadata_pointer, record.resume_policy_json) == ("s3://x", '{"a":1}')
    assert (record.closed_at, record.close_reason, record.satisfiers) == (0, "", ())
    assert await ff.claim() == ()


async def test_a_fresh_waitpoint_is_active_at_once(ff: Driver) -> None:
    wait = await suspended(ff, timeout_ms=5_000)
    view = (await open_waitpoints(ff, wait.execution_id))[0]
    assert (view.waitpoint_id, view.waitpoint_key, view.state) == (
        wait.waitpoint.waitpoint_id,
        "k0",
        "active",
    )
    assert view.created_at == view.activated_at == ff.now
    assert view.expires_at == ff.now + 5_000
    assert view.required_signal_names == ("go",)
    assert wait.waitpoint.waitpoint_token.startswith("k1:")


async def test_several_waitpoints_each_have_a_token(ff: Driver) -> None:
    wait = await suspended(ff, tree(all_of(by_name("a", "x"), by_name("b", "x"), by_name("c", "x"))))
    assert wait.waitpoint.waitpoint_key == "a"
    assert [extra.waitpoint_key for extra in wait.answer.additional_waitpoints] == ["b", "c"]
    tokens = {wait.on(key).waitpoint_token for key in "abc"}
    assert len(tokens) == 3
    assert len(await open_waitpoints(ff, wait.execution_id)) == 3
    record = await wait.record()
    extras = wait.answer.additional_waitpoints
    assert record.additional == tuple((extra.waitpoint_id, extra.waitpoint_key) for extra in extras)


@pytest.mark.parametrize(
    ("reason_code", "blocking"),
    [
        ("waiting_for_signal", "waiting_for_signal"),
        ("waiting_for_approval", "waiting_for_approval"),
        ("waiting_for_callback", "waiting_for_callback"),
        ("waiting_for_tool_result", "waiting_for_tool_result"),
        ("waiting_for_operator_review", "paused_by_operator"),
        ("manual_pause", "paused_by_operator"),
        ("paused_by_policy", "paused_by_policy"),
        ("paused_by_budget", "waiting_for_budget"),
        ("step_boundary", "waiting_for_signal"),
        ("something of our own", "waiting_for_signal"),
    ],
)
async def test_the_reason_decides_what_it_shows_to_wait_for(
    ff: Driver, reason_code: str, blocking: str
) -> None:
    wait = await suspended(ff, reason_code=reason_code)
    assert await wait.vector() == held(blocking)
    assert (await wait.record()).reason_code == reason_code


@pytest.mark.parametrize(
    ("policy", "given", "wait_ms", "behavior"),
    [
        (None, {}, 0, "fail"),
        ({"default_timeout_ms": 500, "timeout_behavior": "escalate"}, {}, 500, "escalate"),
        ({"default_timeout_ms": 500, "timeout_behavior": "cancel"}, {"timeout_ms": 9}, 9, "cancel"),
        (
            {"default_timeout_ms": 500, "timeout_behavior": "cancel"},
            {"timeout_behavior": "expire"},
            500,
            "expire",
        ),
        ({"timeout_behavior": "expire"}, {"timeout_ms": 20}, 20, "expire"),
    ],
)
async def test_the_policy_supplies_what_the_call_leaves_out(
    ff: Driver, policy: dict[str, Any] | None, given: dict[str, Any], wait_ms: int, behavior: str
) -> None:
    create = {"policy": {"suspension_policy": policy}} if policy else {}
    wait = await suspended(ff, create=create, **given)
    record = await wait.record()
    at = ff.now + wait_ms if wait_ms else 0
    assert (record.timeout_at, record.timeout_behavior) == (at, behavior)
    assert (await ff.show(wait.execution_id)).suspension_timeout_at == at


async def test_waiting_for_time_alone_is_content_with_the_policys_timeout(ff: Driver) -> None:
    create = {"policy": {"suspension_policy": {"default_timeout_ms": 500}}}
    wait = await suspended(ff, timeout_only(), create=create)
    assert (await wait.record()).timeout_at == ff.now + 500


@pytest.mark.parametrize("late", [0, 600_000])
async def test_a_timeout_that_is_just_past_is_accepted(ff: Driver, late: int) -> None:
    wait = await suspended(ff, timeout_at=ff.now - late)
    assert await wait.vector() == held("waiting_for_signal")
    assert (await wait.record()).timeout_at == ff.now - late


async def test_a_second_suspension_replaces_the_first(ff: Driver) -> None:
    first = await suspended(ff)
    await first.signal()
    second = await suspend(ff, await ff.claim_one())
    record = await second.record()
    assert record.suspension_id == second.answer.suspension_id != first.answer.suspension_id
    assert [view.waitpoint_id for view in await open_waitpoints(ff, first.execution_id)] == [
        second.waitpoint.waitpoint_id
    ]


async def test_a_repeat_without_a_key_meets_a_suspended_execution(ff: Driver) -> None:
    wait = await suspended(ff)
    error = await refused(ff, suspension(wait.task), "execution_not_active")
    epoch = str(wait.task.fence.lease_epoch)
    assert error.details == ("none", epoch, "suspended", wait.task.attempt_id)


async def test_a_repeat_with_the_key_gets_the_first_answer_verbatim(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    first = await ff.store.apply(suspension(task, idempotency_key="wait"))
    before = await ff.store.dump()
    same = suspension(task, idempotency_key="wait")
    other = suspension(
        task, tree(all_of(by_name("x", "a"), by_name("y", "b"))), idempotency_key="wait", fence=NO_FENCE
    )
    assert await ff.store.apply(same) == first
    assert await ff.store.apply(other) == first
    assert await ff.store.dump() == before


async def test_the_key_outlives_the_suspension_and_the_lease(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    first = await ff.store.apply(suspension(task, idempotency_key="wait"))
    await accepted(ff, delivery(task.execution_id, first.waitpoint))
    await ff.complete(await ff.claim_one())
    assert await ff.store.apply(suspension(task, idempotency_key="wait")) == first


async def test_the_key_belongs_to_one_execution(ff: Driver) -> None:
    first = await suspended(ff, idempotency_key="wait")
    second = await suspend(ff, await ff.running(), idempotency_key="wait")
    assert second.answer.suspension_id != first.answer.suspension_id


@pytest.mark.parametrize(
    ("given", "life"),
    [
        ({"timeout_ms": 5_000}, 65_000),
        ({"timeout_ms": 0}, 60_000),
        ({"timeout_ms": SUSPEND_MEMO_MAX_MS}, SUSPEND_MEMO_MAX_MS),
        ({}, SUSPEND_MEMO_MAX_MS),
    ],
)
async def test_the_key_is_remembered_as_long_as_the_timeout_says(
    ff: Driver, given: dict[str, Any], life: int
) -> None:
    await ff.seed()
    task = await ff.running()
    command = suspension(task, idempotency_key="wait", **given)
    first = await ff.store.apply(command)
    ff.clock.advance(life - 1)
    assert await ff.store.apply(command) == first
    ff.clock.advance(2)
    await refused(ff, command, "execution_not_active")


async def test_a_pending_waitpoint_keeps_what_was_handed_out(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    opened = await open_pending(ff, task, "mail", expires_in_ms=1_000)
    created_at = ff.now
    ff.clock.advance(999)
    wait = await suspend(ff, task, waitpoints=pending(opened))
    assert wait.waitpoint == opened
    stored = await stored_waitpoint(ff, task.execution_id, opened.waitpoint_id)
    assert (stored.state, stored.created_at, stored.activated_at) == ("active", created_at, ff.now)
    assert stored.suspension_id == wait.answer.suspension_id
    assert (await ff.show(task.execution_id)).pending_waitpoints == ()
    ff.clock.advance(5_000)
    assert await wait.signal() == SATISFIED


LISTS: list[tuple[Condition, list[str]]] = [
    (list_condition(("a", "b"), "all"), ["a", "b"]),
    (list_condition(("a", "b", "c"), "count", 2), ["c", "a"]),
    (list_condition(()), ["x"]),
]
TREES: list[tuple[Condition, list[str]]] = [
    (tree(count(2, "Signals", "p0")), ["x", "y"]),
    (tree(all_of(by_name("p0", "a"), all_of(by_name("p0", "b")))), ["a", "b"]),
]


@pytest.mark.parametrize(("condition", "names"), LISTS + TREES)
async def test_buffered_signals_may_satisfy_it_at_once(
    ff: Driver, condition: Condition, names: list[str]
) -> None:
    await ff.seed()
    task = await ff.running()
    opened = await open_pending(ff, task)
    sent = [delivery(task.execution_id, opened, name) for name in names]
    assert [await accepted(ff, command) for command in sent] == [BUFFERED] * len(sent)
    ff.clock.advance(5)
    answer = await ff.store.apply(suspension(task, condition, waitpoints=pending(opened)))
    assert isinstance(answer, SatisfiedAtOnce)
    assert answer.waitpoint == opened
    assert {signal.signal_id for signal in answer.resume_signals} == {command.signal_id for command in sent}
    assert await ff.vector(task.execution_id) == HELD
    assert (await ff.show(task.execution_id)).current_lease_id == task.fence.lease_id
    record = await suspension_record(ff, task.execution_id)
    assert (record.suspension_id, record.close_reason) == (answer.suspension_id, "resumed")
    assert record.closed_at == record.satisfied_at == ff.now
    assert len(record.satisfiers) == len(sent)
    stored = await stored_waitpoint(ff, task.execution_id, opened.waitpoint_id)
    assert (stored.state, stored.close_reason) == ("closed", "resumed")
    assert (await ff.show(task.execution_id)).pending_waitpoints == ()
    assert (await ff.events(task.execution_id))[-1] == "already_satisfied"
    await ff.store.apply(Renew(execution_id=task.execution_id, fence=task.fence))
    await ff.complete(task)


@pytest.mark.parametrize(
    "condition", [list_condition(("a", "b"), "all"), tree(all_of(by_name("p0", "a"), by_name("p0", "b")))]
)
async def test_buffered_signals_that_do_not_suffice_count_later(ff: Driver, condition: Condition) -> None:
    await ff.seed()
    task = await ff.running()
    opened = await open_pending(ff, task)
    await accepted(ff, delivery(task.execution_id, opened, "b"))
    await accepted(ff, delivery(task.execution_id, opened, "other"))
    wait = await suspend(ff, task, condition, waitpoints=pending(opened))
    assert await wait.vector() == held("waiting_for_signal")
    assert await wait.signal("a") == SATISFIED
    names = [signal.signal_name for signal in (await ff.claim_one()).resume_signals]
    assert sorted(names) == ["a", "b"]


async def test_buffered_signals_are_taken_oldest_first(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    opened = await open_pending(ff, task)
    for payload in (b"1", b"2", b"3"):
        await accepted(ff, delivery(task.execution_id, opened, "a", payload=payload))
        ff.clock.advance(1)
    answer = await ff.store.apply(
        suspension(task, list_condition(("a", "a"), "all"), waitpoints=pending(opened))
    )
    assert isinstance(answer, SatisfiedAtOnce)
    assert [signal.payload for signal in answer.resume_signals] == [b"1", b"2"]


async def test_a_satisfied_wait_is_remembered_under_its_key(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    opened = await open_pending(ff, task)
    await accepted(ff, delivery(task.execution_id, opened))
    command = suspension(task, waitpoints=pending(opened), idempotency_key="wait")
    answer = await ff.store.apply(command)
    assert isinstance(answer, SatisfiedAtOnce)
    await ff.complete(task)
    assert await ff.store.apply(command) == answer


async def test_after_a_satisfied_wait_the_holder_may_suspend_again(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    opened = await open_pending(ff, task)
    await accepted(ff, delivery(task.execution_id, opened))
    await ff.store.apply(suspension(task, waitpoints=pending(opened)))
    wait = await suspend(ff, task, operator_only())
    assert await wait.vector() == held("waiting_for_signal")


async def test_a_new_attempt_has_no_part_in_the_suspension_of_the_old_one(ff: Driver) -> None:
    wait = await suspended(ff)
    await wait.signal()
    await let_go(ff, await ff.claim_one())
    again = await ff.claim_one()
    assert again.attempt_index == 1
    assert (again.resume, again.resume_signals) == (None, ())
    second = await suspend(ff, again, waitpoints=fresh("other"))
    assert (await second.record()).attempt_index == 1


async def test_an_execution_that_never_waited_has_no_suspension(ff: Driver) -> None:
    task = await ff.running()
    assert await ff.store.read(GetSuspension(execution_id=task.execution_id)) is None


async def test_other_operations_do_not_disturb_a_wait(ff: Driver) -> None:
    wait = await suspended(ff, tree(count(2, "Signals", "k0")))
    await wait.signal("x")
    await ff.store.apply(SetTags(execution_id=wait.execution_id, tags=(("team", "a"),)))
    assert await wait.signal("x", signal_id=new_uuid()) == SATISFIED
