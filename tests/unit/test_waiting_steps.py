"""Edges of suspensions and signals that lie inside the machine."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flowfabric.model.condition_json import parse_condition
from flowfabric.model.conditions import list_condition, single, timeout_only
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.limits import MAX_STEPS
from flowfabric.model.machine.group import run_group
from flowfabric.model.machine.workspace import Workspace
from flowfabric.model.operations.access_secret import RotateSecret, SeedSecret
from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.signal import DeliverSignal, SignalAccepted
from flowfabric.model.operations.step import PutStep
from flowfabric.model.operations.suspend import Binding, SatisfiedAtOnce, Suspend, Suspended
from flowfabric.model.operations.suspend_resume import ResumeExecution
from flowfabric.model.operations.suspend_waitpoint import CloseWaitpoint, CreateWaitpoint, OpenWaitpoint
from flowfabric.model.operations.timer import ExpireSuspension, ExpireWaitpoints, Swept
from flowfabric.model.records import Execution, Memo, Step, Suspension, Waitpoint
from flowfabric.model.wait_result import unpack_wait
from flowfabric.storage.memory import MemoryStore
from support.clock import ManualClock
from support.driver import SECRET, Driver, new_uuid


@pytest.fixture
async def ff() -> Driver:
    clock = ManualClock()
    driver = Driver(MemoryStore(clock=clock), clock)
    await driver.seed()
    return driver


def tables(ff: Driver) -> Any:
    assert isinstance(ff.store, MemoryStore)
    return ff.store.tables.records


def run_of(ff: Driver, task: Task) -> Execution:
    run = tables(ff)["execution"][task.execution_id,]
    assert isinstance(run, Execution)
    return run


def suspension_of(ff: Driver, task: Task) -> Suspension:
    found = tables(ff)["suspension"][task.execution_id,]
    assert isinstance(found, Suspension)
    return found


def waitpoint_of(ff: Driver, task: Task, waitpoint_id: str) -> Waitpoint:
    found = tables(ff)["waitpoint"][task.execution_id, waitpoint_id]
    assert isinstance(found, Waitpoint)
    return found


def numbers(ff: Driver, waitpoint_id: str) -> list[int]:
    return [key[2] for key in tables(ff)["signal"] if key[1] == waitpoint_id]


async def suspend(ff: Driver, task: Task, **fields: Any) -> Any:
    fields.setdefault("condition", list_condition(("go",)))
    fields.setdefault("waitpoints", (Binding(new_uuid(), "k"),))
    fields.setdefault("suspension_id", new_uuid())
    return await ff.store.apply(Suspend(execution_id=task.execution_id, fence=task.fence, **fields))


async def signal(ff: Driver, task: Task, waitpoint: OpenWaitpoint, name: str = "go", **fields: Any) -> str:
    command = DeliverSignal(
        execution_id=task.execution_id,
        waitpoint_id=waitpoint.waitpoint_id,
        signal_id=new_uuid(),
        waitpoint_token=waitpoint.waitpoint_token,
        signal_name=name,
        **fields,
    )
    answer = await ff.store.apply(command)
    assert isinstance(answer, SignalAccepted)
    return answer.effect


async def pending(ff: Driver, task: Task, waitpoint_id: str = "", ms: int = 60_000) -> OpenWaitpoint:
    command = CreateWaitpoint(
        execution_id=task.execution_id,
        fence=task.fence,
        waitpoint_id=waitpoint_id or new_uuid(),
        waitpoint_key="p",
        expires_in_ms=ms,
    )
    return (await ff.store.apply(command)).waitpoint


async def code_of(awaitable: Any) -> str:
    with pytest.raises(FlowFabricError) as caught:
        await awaitable
    return (
        f"{caught.value.code}:{caught.value.text}"
        if caught.value.code == "invalid_input"
        else caught.value.code
    )


def step_of(ff: Driver, task: Task, name: str) -> Step:
    found = tables(ff)["step"][task.execution_id, name]
    assert isinstance(found, Step)
    return found


# Secrets.


def test_nothing_that_holds_a_secret_shows_it() -> None:
    ident = new_uuid()
    holders: list[Any] = [
        Waitpoint(1, ident, 0, "k", "k1:hush", "active", 1),
        OpenWaitpoint(ident, "k", "k1:hush"),
        Memo(b"k1:hush", 5),
        Suspended(ident, OpenWaitpoint(ident, "k", "k1:hush")),
        DeliverSignal(
            execution_id="x",
            waitpoint_id=ident,
            signal_id=ident,
            signal_name="go",
            waitpoint_token="k1:hush",
        ),
        SeedSecret(kid="k1", secret_hex="hush"),
        RotateSecret(new_kid="k1", new_secret_hex="hush", grace_ms=1),
    ]
    for holder in holders:
        assert "hush" not in repr(holder)
        assert "hush" not in str(list(holder.__rich_repr__()))


async def test_history_holds_neither_tokens_nor_payloads(ff: Driver) -> None:
    task = await ff.running()
    answer = await suspend(ff, task)
    await signal(ff, task, answer.waitpoint, payload=b"do not tell")
    told = repr(await ff.history(task.execution_id))
    assert answer.waitpoint.waitpoint_token not in told
    assert "do not tell" not in told


async def test_a_seed_that_is_there_and_a_rotation_to_the_same_key_write_nothing(ff: Driver) -> None:
    for command in (
        SeedSecret(kid="k1", secret_hex=SECRET),
        RotateSecret(new_kid="k1", new_secret_hex=SECRET, grace_ms=1),
    ):
        space = Workspace(ff.now)
        group = run_group(space, (command,), (0.5,))
        assert isinstance(ff.store, MemoryStore)
        try:
            while True:
                ff.store.tables.load(space, next(group))
        except StopIteration:
            assert list(space.changes()) == []


# Waitpoints.


async def test_a_closed_waitpoint_that_is_opened_again_has_forgotten_its_signals(ff: Driver) -> None:
    task = await ff.running()
    old = await pending(ff, task)
    await signal(ff, task, old)
    await ff.store.apply(CloseWaitpoint(execution_id=task.execution_id, waitpoint_id=old.waitpoint_id))
    ff.clock.advance(1)
    await pending(ff, task, old.waitpoint_id)
    assert numbers(ff, old.waitpoint_id) == []
    answer = await suspend(ff, task, waitpoints=(Binding(old.waitpoint_id, pending=True),))
    assert isinstance(answer, Suspended)


async def test_a_fresh_waitpoint_cannot_take_the_id_of_a_pending_one(ff: Driver) -> None:
    task = await ff.running()
    open_one = await pending(ff, task)
    refused = suspend(ff, task, waitpoints=(Binding(open_one.waitpoint_id, "k"),))
    assert await code_of(refused) == "waitpoint_already_exists"


async def test_a_condition_on_another_key_than_the_pending_waitpoints_is_refused(ff: Driver) -> None:
    task = await ff.running()
    open_one = await pending(ff, task)
    binding = Binding(open_one.waitpoint_id, pending=True)
    refused = suspend(ff, task, waitpoints=(binding,), condition=single("other", "go"))
    assert await code_of(refused) == "invalid_input:waitpoint_key_mismatch"
    assert isinstance(await suspend(ff, task, waitpoints=(binding,), condition=single("p", "go")), Suspended)


async def test_every_pending_waitpoint_past_its_time_closes_in_one_sweep(ff: Driver) -> None:
    task = await ff.running()
    short = [await pending(ff, task, ms=10) for _ in range(3)]
    long = await pending(ff, task)
    sweep = ExpireWaitpoints(execution_id=task.execution_id)
    assert await ff.store.apply(sweep) == Swept("not_yet_due", "active")
    ff.clock.advance(10)
    assert await ff.store.apply(sweep) == Swept("closed", "active")
    assert await ff.store.apply(sweep) == Swept("not_yet_due", "active")
    assert [entry[0] for entry in run_of(ff, task).pending_waitpoints] == [long.waitpoint_id]
    assert {waitpoint_of(ff, task, each.waitpoint_id).close_reason for each in short} == {"never_committed"}
    assert (await ff.events(task.execution_id)).count("waitpoint_closed") == 3


# Signals.


async def test_trimming_is_exact_when_the_kept_length_changes(ff: Driver) -> None:
    task = await ff.running()
    answer = await suspend(ff, task)
    place = answer.waitpoint.waitpoint_id
    for _ in range(6):
        await signal(ff, task, answer.waitpoint, "other")
    await signal(ff, task, answer.waitpoint, "other", signal_maxlen=2)
    assert numbers(ff, place) == [6, 7]
    await signal(ff, task, answer.waitpoint, "other", signal_maxlen=3)
    assert numbers(ff, place) == [6, 7, 8]
    assert waitpoint_of(ff, task, place).signal_count == 8


async def test_hundreds_of_waitpoints_and_satisfiers_load_together(ff: Driver) -> None:
    task = await ff.running()
    keys = [f"k{n}" for n in range(200)]
    condition = parse_condition(
        {"kind": "Count", "n": 200, "count_kind": "DistinctWaitpoints", "waitpoints": keys}
    )
    answer = await suspend(
        ff,
        task,
        condition=condition,
        waitpoints=tuple(Binding(new_uuid(), key) for key in keys),
        step_name="all",
    )
    for waitpoint in (answer.waitpoint, *answer.additional_waitpoints):
        await signal(ff, task, waitpoint)
    assert len(unpack_wait(step_of(ff, task, "all").result).signals) == 200
    assert len((await ff.claim_one()).resume_signals) == 200


async def test_a_buffered_signal_counts_in_a_tree(ff: Driver) -> None:
    task = await ff.running()
    open_one = await pending(ff, task)
    await signal(ff, task, open_one, "first")
    tree = parse_condition({"kind": "Count", "n": 2, "count_kind": "DistinctSignals", "waitpoints": ["p"]})
    answer = await suspend(
        ff, task, condition=tree, waitpoints=(Binding(open_one.waitpoint_id, pending=True),)
    )
    assert isinstance(answer, Suspended)
    assert await signal(ff, task, open_one, "second") == "resume_condition_satisfied"
    assert [each.signal_name for each in (await ff.claim_one()).resume_signals] == ["first", "second"]


# What a wait leaves behind.


async def test_buffered_signals_that_satisfy_are_stored_as_the_step(ff: Driver) -> None:
    task = await ff.running()
    open_one = await pending(ff, task)
    await signal(ff, task, open_one, payload=b"\xff\x00")
    answer = await suspend(
        ff, task, waitpoints=(Binding(open_one.waitpoint_id, pending=True),), step_name="approval"
    )
    assert isinstance(answer, SatisfiedAtOnce)
    assert [each.payload for each in answer.resume_signals] == [b"\xff\x00"]
    result = unpack_wait(step_of(ff, task, "approval").result)
    assert (result.reason, [each.data() for each in result.signals]) == ("signal", [b"\xff\x00"])
    run = run_of(ff, task)
    assert (run.step_count, run.pending_waitpoints, run.public_state) == (1, (), "active")
    assert run.current_lease_id == task.fence.lease_id
    assert suspension_of(ff, task).close_reason == "resumed"
    assert waitpoint_of(ff, task, open_one.waitpoint_id).state == "closed"


@pytest.mark.parametrize(
    ("how", "reason"), [("signal", "signal"), ("operator", "operator"), ("timer", "timeout")]
)
async def test_what_ends_the_wait_is_the_result_of_its_step(ff: Driver, how: str, reason: str) -> None:
    task = await ff.running()
    await ff.store.apply(
        PutStep(execution_id=task.execution_id, fence=task.fence, step_name="before", result=b"1")
    )
    answer = await suspend(ff, task, step_name="wait", timeout_ms=100, timeout_behavior="auto_resume")
    if how == "signal":
        await signal(ff, task, answer.waitpoint, payload=b'{"ok":true}')
    elif how == "operator":
        await ff.store.apply(ResumeExecution(execution_id=task.execution_id))
    else:
        ff.clock.advance(100)
        swept = await ff.store.apply(ExpireSuspension(execution_id=task.execution_id))
        assert swept == Swept("auto_resume", "waiting")
    kept = step_of(ff, task, "wait")
    assert (kept.call_index, kept.encoding) == (1, "json")
    result = unpack_wait(kept.result)
    assert result.reason == reason
    assert [each.payload for each in result.signals] == (['{"ok":true}'] if how == "signal" else [])
    run = run_of(ff, task)
    assert (run.step_count, run.suspension_timeout_at) == (2, 0)
    resumed = await ff.claim_one()
    assert resumed.resume is not None
    assert (resumed.resume.step_name, resumed.resume.reason) == ("wait", reason)
    assert [each.name for each in resumed.steps] == ["before", "wait"]


async def test_a_step_that_is_stored_already_stands(ff: Driver) -> None:
    task = await ff.running()
    await ff.store.apply(
        PutStep(execution_id=task.execution_id, fence=task.fence, step_name="wait", result=b"1")
    )
    answer = await suspend(ff, task, step_name="wait")
    await signal(ff, task, answer.waitpoint)
    assert step_of(ff, task, "wait").result == b"1"
    assert run_of(ff, task).step_count == 1


async def test_room_for_the_step_is_looked_for_before_the_lease_is_given_back(ff: Driver) -> None:
    task = await ff.running()
    full = replace(run_of(ff, task), step_count=MAX_STEPS)
    tables(ff)["execution"][task.execution_id,] = full
    assert await code_of(suspend(ff, task, step_name="wait")) == "step_limit_exceeded"
    assert isinstance(await suspend(ff, task), Suspended)


# Time.


async def test_the_policy_gives_the_timeout_that_the_call_does_not(ff: Driver) -> None:
    policy = {"suspension_policy": {"default_timeout_ms": 500, "default_timeout_behavior": "cancel"}}
    task = await ff.running(policy=policy)
    await suspend(ff, task, condition=timeout_only())
    assert suspension_of(ff, task).timeout_at == ff.now + 500
    bare = await ff.running()
    refused = suspend(ff, bare, condition=timeout_only())
    assert await code_of(refused) == "invalid_input:timeout_only_without_deadline"


@pytest.mark.parametrize(("past", "accepted"), [(600_000, True), (600_001, False)])
async def test_a_timeout_may_lie_ten_minutes_back(ff: Driver, past: int, accepted: bool) -> None:
    task = await ff.running()
    call = suspend(ff, task, timeout_at=ff.now - past)
    if accepted:
        assert isinstance(await call, Suspended)
    else:
        assert await code_of(call) == "invalid_input:timeout_at_in_past"


@pytest.mark.parametrize(
    ("behavior", "public"), [("fail", "failed"), ("cancel", "cancelled"), ("expire", "expired")]
)
async def test_a_timeout_ends_everything_that_was_open(ff: Driver, behavior: str, public: str) -> None:
    task = await ff.running()
    spare = await pending(ff, task)
    answer = await suspend(ff, task, timeout_ms=100, timeout_behavior=behavior)
    ff.clock.advance(100)
    swept = await ff.store.apply(ExpireSuspension(execution_id=task.execution_id))
    assert swept == Swept(behavior, public)
    run = run_of(ff, task)
    assert (run.failure_reason, run.suspension_timeout_at) == (f"suspension_timeout:{behavior}", 0)
    assert suspension_of(ff, task).close_reason == f"timed_out_{behavior}"
    for place in (spare, answer.waitpoint):
        assert waitpoint_of(ff, task, place.waitpoint_id).state == "closed"
        assert await code_of(signal(ff, task, place)) == "target_not_signalable"


async def test_an_escalated_wait_has_no_time_and_still_takes_signals(ff: Driver) -> None:
    task = await ff.running()
    answer = await suspend(ff, task, timeout_ms=100, timeout_behavior="escalate")
    ff.clock.advance(100)
    sweep = ExpireSuspension(execution_id=task.execution_id)
    assert await ff.store.apply(sweep) == Swept("escalate", "suspended")
    assert await ff.store.apply(sweep) == Swept("not_yet_due", "suspended")
    assert run_of(ff, task).blocking_reason == "paused_by_operator"
    assert suspension_of(ff, task).reason_code == "waiting_for_operator_review"
    assert waitpoint_of(ff, task, answer.waitpoint.waitpoint_id).expires_at == 0
    assert await signal(ff, task, answer.waitpoint, resume_delay_ms=50) == "resume_condition_satisfied"
    run = run_of(ff, task)
    assert (run.public_state, run.blocking_reason) == ("delayed", "waiting_for_resume_delay")
    assert run.delay_until == ff.now + 50


async def test_the_answer_is_remembered_for_its_time(ff: Driver) -> None:
    task = await ff.running()
    first = await suspend(ff, task, idempotency_key="once", timeout_ms=100)
    await signal(ff, task, first.waitpoint)
    ff.clock.advance(60_099)
    assert await suspend(ff, task, idempotency_key="once") == first
    ff.clock.advance(1)
    assert await code_of(suspend(ff, task, idempotency_key="once")) == "execution_not_active"
