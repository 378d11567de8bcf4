"""How a wait goes on: delays, operators, approvals, and what a step remembers of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowfabric.model.conditions import Condition, list_condition, operator_only, timeout_only
from flowfabric.model.operations.signal import ApproveSignal, ObserveSignals, SignalAccepted, SignalDuplicate
from flowfabric.model.operations.step import GetStep
from flowfabric.model.operations.suspend import SatisfiedAtOnce
from flowfabric.model.operations.suspend_resume import ResumeExecution
from flowfabric.model.operations.timer import ExpireSuspension, MarkLeaseExpired, PromoteDelayed
from flowfabric.model.records import Signal
from flowfabric.model.views import StepView
from support.driver import LEASE, Driver, new_uuid
from support.waiting import (
    APPENDED,
    BUFFERED,
    NO_OP,
    RESUMED,
    RESUMED_LATER,
    SATISFIED,
    Wait,
    accepted,
    all_of,
    by_name,
    count,
    delivery,
    held,
    let_go,
    open_pending,
    open_waitpoints,
    pending,
    refused,
    stored_waitpoint,
    suspended,
    suspension,
    tree,
)

RIGID = tree(by_name("k0", "go"), allow_operator_override=False)


def approval(wait: Wait, name: str = "go", **fields: Any) -> ApproveSignal:
    fields = {"waitpoint_id": wait.waitpoint.waitpoint_id, "signal_id": new_uuid()} | fields
    return ApproveSignal(execution_id=wait.execution_id, signal_name=name, **fields)


async def test_a_resume_may_be_delayed_by_the_signal(ff: Driver) -> None:
    wait = await suspended(ff)
    assert await wait.signal(resume_delay_ms=500) == SATISFIED
    assert await wait.vector() == RESUMED_LATER
    assert (await ff.show(wait.execution_id)).delay_until == ff.now + 500
    assert await ff.claim() == ()
    ff.clock.advance(499)
    assert (await ff.store.apply(PromoteDelayed(execution_id=wait.execution_id))).outcome == "not_yet_due"
    ff.clock.advance(1)
    assert (await ff.store.apply(PromoteDelayed(execution_id=wait.execution_id))).outcome == "promoted"
    assert await wait.vector() == RESUMED
    task = await ff.claim_one()
    assert (task.attempt_type, task.attempt_index) == ("resumed", 0)
    assert [signal.signal_name for signal in task.resume_signals] == ["go"]


@pytest.mark.parametrize(
    ("given", "delay"), [({}, 300), ({"resume_delay_ms": 9}, 9), ({"resume_delay_ms": 0}, 0)]
)
async def test_the_suspension_says_how_long_unless_the_signal_does(
    ff: Driver, given: dict[str, Any], delay: int
) -> None:
    wait = await suspended(ff, resume_delay_ms=300)
    await wait.signal(**given)
    assert await wait.vector() == (RESUMED_LATER if delay else RESUMED)
    assert (await ff.show(wait.execution_id)).delay_until == (ff.now + delay if delay else 0)


async def test_only_the_satisfying_signal_decides_the_delay(ff: Driver) -> None:
    wait = await suspended(ff, list_condition(("a", "b"), "all"))
    assert await wait.signal("a", resume_delay_ms=500) == APPENDED
    assert await wait.signal("b") == SATISFIED
    assert await wait.vector() == RESUMED


CONDITIONS = [
    list_condition(("go",)),
    operator_only(),
    timeout_only(),
    tree(all_of(by_name("a", "x"), by_name("b", "x"))),
    tree(count(2, "Sources", "a")),
]


@pytest.mark.parametrize("condition", CONDITIONS)
async def test_an_operator_resumes_any_wait(ff: Driver, condition: Condition) -> None:
    wait = await suspended(ff, condition, timeout_ms=60_000)
    await wait.signal("noise")
    ff.clock.advance(4)
    assert await wait.resume(actor="ops") == "waiting"
    assert await wait.vector() == RESUMED
    record = await wait.record()
    assert (record.close_reason, record.closed_at) == ("resumed_by_operator", ff.now)
    assert await open_waitpoints(ff, wait.execution_id) == ()
    run = await ff.show(wait.execution_id)
    assert run.suspension_timeout_at == 0
    event = (await ff.history(wait.execution_id))[-1]
    assert (event.event, event.actor, event.to_state) == ("resumed", "ops", "waiting")
    task = await ff.claim_one()
    assert task.resume is not None
    assert (task.resume.reason, task.resume_signals) == ("operator", ())
    assert await ff.store.read(ObserveSignals(execution_id=wait.execution_id)) == ()


async def test_an_operator_leaves_partial_progress_behind(ff: Driver) -> None:
    wait = await suspended(ff, list_condition(("a", "b"), "all"))
    assert await wait.signal("a") == APPENDED
    await wait.resume()
    await refused(ff, wait.delivery("b"), "target_not_signalable")
    assert (await ff.claim_one()).resume_signals == ()


async def test_an_operator_may_delay_the_resume(ff: Driver) -> None:
    wait = await suspended(ff)
    assert await wait.resume(resume_delay_ms=500) == "delayed"
    assert await wait.vector() == RESUMED_LATER
    assert (await ff.show(wait.execution_id)).delay_until == ff.now + 500


async def test_only_what_is_suspended_can_be_resumed(ff: Driver) -> None:
    wait = await suspended(ff)
    command = ResumeExecution(execution_id=wait.execution_id)
    await ff.store.apply(command)
    await refused(ff, command, "execution_not_suspended")
    task = await ff.claim_one()
    await refused(ff, command, "execution_not_suspended")
    await ff.complete(task)
    await refused(ff, command, "execution_not_suspended")
    await refused(ff, ResumeExecution(execution_id=ff.new_id()), "execution_not_found")
    assert (
        await refused(
            ff, ResumeExecution(execution_id=wait.execution_id, resume_delay_ms=-1), "invalid_input"
        )
    ).field


async def test_a_condition_may_refuse_operators(ff: Driver) -> None:
    wait = await suspended(ff, RIGID)
    await refused(ff, ResumeExecution(execution_id=wait.execution_id), "resume_condition_not_met")
    assert await wait.vector() == held("waiting_for_signal")
    assert await wait.signal() == SATISFIED


async def test_an_approval_needs_no_token(ff: Driver) -> None:
    wait = await suspended(
        ff, list_condition(("approve", "approve"), "all"), reason_code="waiting_for_approval"
    )
    command = approval(wait, "approve", payload=b"\x00yes", lane_id="default", key_suffix="1", actor="ops")
    assert await ff.store.apply(command) == SignalAccepted(command.signal_id, APPENDED)
    (stored,) = (await ff.store.dump()).records["signal"].values()
    assert isinstance(stored, Signal)
    assert (stored.signal_category, stored.source_type, stored.source_identity) == (
        "approval",
        "operator",
        "",
    )
    assert (stored.target_scope, stored.idempotency_key) == ("execution", "approval:approve:1")
    repeat = approval(wait, "approve", key_suffix="1")
    assert await ff.store.apply(repeat) == SignalDuplicate(command.signal_id)
    second = approval(wait, "approve", key_suffix="2")
    assert await ff.store.apply(second) == SignalAccepted(second.signal_id, SATISFIED)
    assert [signal.payload for signal in (await ff.claim_one()).resume_signals] == [b"\x00yes", b""]


async def test_an_approval_looks_where_it_goes(ff: Driver) -> None:
    wait = await suspended(ff)
    error = await refused(ff, approval(wait, lane_id="elsewhere"), "invalid_input")
    assert "lane_mismatch" in error.text
    await refused(ff, approval(wait, waitpoint_id=new_uuid()), "waitpoint_not_found")
    unknown = ApproveSignal(
        execution_id=ff.new_id(), waitpoint_id=new_uuid(), signal_id=new_uuid(), signal_name="go"
    )
    await refused(ff, unknown, "execution_not_found")
    await refused(ff, approval(wait, "__operator_only__"), "invalid_input")
    other = approval(wait, "other")
    assert await ff.store.apply(other) == SignalAccepted(other.signal_id, NO_OP)
    await wait.resume()
    await refused(ff, approval(wait), "target_not_signalable")


async def test_an_approval_may_come_ahead(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    opened = await open_pending(ff, task)
    command = ApproveSignal(
        execution_id=task.execution_id,
        waitpoint_id=opened.waitpoint_id,
        signal_id=new_uuid(),
        signal_name="go",
    )
    assert await ff.store.apply(command) == SignalAccepted(command.signal_id, BUFFERED)
    answer = await ff.store.apply(suspension(task, waitpoints=pending(opened)))
    assert isinstance(answer, SatisfiedAtOnce)


async def step(ff: Driver, wait: Wait) -> StepView:
    found = await ff.store.read(GetStep(execution_id=wait.execution_id, step_name="approval"))
    assert found is not None
    return found


async def test_a_step_remembers_the_signals_that_ended_the_wait(ff: Driver) -> None:
    wait = await suspended(ff, step_name="approval")
    assert await ff.store.read(GetStep(execution_id=wait.execution_id, step_name="approval")) is None
    ff.clock.advance(8)
    command = wait.delivery(payload=b'{"ok":true}')
    await accepted(ff, command)
    stored = await step(ff, wait)
    assert (stored.at, stored.encoding) == (ff.now, "json")
    told = json.dumps(json.loads(stored.result))
    assert command.signal_id in told
    assert '"signal"' in told
    task = await ff.claim_one()
    assert task.resume is not None
    assert task.resume.step_name == "approval"
    assert task.steps == (stored,)
    await let_go(ff, task)
    again = await ff.claim_one()
    assert (again.attempt_type, again.steps) == ("reclaim", (stored,))


async def test_a_crash_after_the_resumed_claim_finds_the_wait_satisfied(ff: Driver) -> None:
    wait = await suspended(ff, step_name="approval", create={"policy": {"retry_policy": {"max_retries": 1}}})
    await wait.signal()
    await ff.claim_one()
    ff.clock.advance(LEASE)
    await ff.store.apply(MarkLeaseExpired(execution_id=wait.execution_id))
    again = await ff.claim_one()
    assert (again.attempt_type, [step.name for step in again.steps]) == ("reclaim", ["approval"])
    await ff.fail(again, retry_after_ms=0)
    assert [step.name for step in (await ff.claim_one()).steps] == ["approval"]


async def test_a_step_remembers_binary_payloads(ff: Driver) -> None:
    wait = await suspended(ff, step_name="approval")
    await wait.signal(payload=b"\xff\x00")
    assert "/wA=" in json.dumps(json.loads((await step(ff, wait)).result))


async def test_a_step_remembers_an_operator(ff: Driver) -> None:
    wait = await suspended(ff, step_name="approval")
    await wait.resume()
    assert '"operator"' in json.dumps(json.loads((await step(ff, wait)).result))


async def test_a_step_remembers_a_timeout(ff: Driver) -> None:
    wait = await suspended(ff, step_name="approval", timeout_ms=10, timeout_behavior="auto_resume")
    ff.clock.advance(10)
    await ff.store.apply(ExpireSuspension(execution_id=wait.execution_id))
    assert '"timeout"' in json.dumps(json.loads((await step(ff, wait)).result))
    task = await ff.claim_one()
    assert task.resume is not None
    assert (task.resume.reason, task.resume.step_name) == ("timeout", "approval")


async def test_a_step_remembers_a_wait_that_was_over_at_once(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    opened = await open_pending(ff, task)
    await accepted(ff, delivery(task.execution_id, opened))
    answer = await ff.store.apply(suspension(task, waitpoints=pending(opened), step_name="approval"))
    assert isinstance(answer, SatisfiedAtOnce)
    assert await ff.store.read(GetStep(execution_id=task.execution_id, step_name="approval")) is not None


@pytest.mark.parametrize("behavior", ["fail", "cancel", "expire"])
async def test_a_wait_that_ends_the_execution_leaves_no_step(ff: Driver, behavior: str) -> None:
    wait = await suspended(ff, step_name="approval", timeout_ms=10, timeout_behavior=behavior)
    ff.clock.advance(10)
    await ff.store.apply(ExpireSuspension(execution_id=wait.execution_id))
    assert await ff.store.read(GetStep(execution_id=wait.execution_id, step_name="approval")) is None


async def test_the_waitpoint_of_an_operators_resume_is_closed_by_name(ff: Driver) -> None:
    wait = await suspended(ff)
    await wait.resume()
    stored = await stored_waitpoint(ff, wait.execution_id, wait.waitpoint.waitpoint_id)
    assert (stored.state, stored.close_reason) == ("closed", "resumed_by_operator")
