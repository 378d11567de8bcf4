"""Durable steps: the first result stands, and outlives every attempt."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.engine import every_step
from flowfabric.model.command import NO_FENCE, Fence
from flowfabric.model.limits import MAX_STEP_BYTES, MAX_STEP_BYTES_IN_PAGE, MAX_STEPS
from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.finish import Complete, Delay
from flowfabric.model.operations.lease import RevokeLease
from flowfabric.model.operations.operate import Replay
from flowfabric.model.operations.step import GetStep, ListSteps, PutStep, StepExisting, StepStored
from flowfabric.model.operations.timer import MarkLeaseExpired
from support.driver import LEASE, Driver, new_uuid
from support.waiting import let_go, refused, suspend, suspended, unanswered

KIB = 1_024


def step(task: Task, name: str, result: bytes = b"1", **fields: Any) -> PutStep:
    fields.setdefault("fence", task.fence)
    return PutStep(execution_id=task.execution_id, step_name=name, result=result, **fields)


async def put(ff: Driver, task: Task, *names: str) -> None:
    for name in names:
        assert await ff.store.apply(step(task, name, f'"{name}"'.encode())) == StepStored()


async def names(ff: Driver, task: Task) -> list[str]:
    return [one.name async for one in every_step(ff.store, task.execution_id)]


async def test_the_first_result_stands(ff: Driver) -> None:
    task = await ff.running()
    ff.clock.advance(5)
    assert await ff.store.apply(step(task, "fetch", b"\x00\xff", encoding="raw")) == StepStored()
    before = await ff.store.dump()
    again = await ff.store.apply(step(task, "fetch", b"other"))
    assert again == StepExisting(result=b"\x00\xff", encoding="raw")
    assert await ff.store.dump() == before
    stored = await ff.store.read(GetStep(execution_id=task.execution_id, step_name="fetch"))
    assert stored is not None
    assert (stored.name, stored.result, stored.encoding, stored.at) == ("fetch", b"\x00\xff", "raw", ff.now)
    assert (await ff.events(task.execution_id))[-1] == "step"


async def test_a_step_that_is_not_there(ff: Driver) -> None:
    task = await ff.running()
    assert await ff.store.read(GetStep(execution_id=task.execution_id, step_name="x")) is None
    await unanswered(ff, ListSteps(execution_id=ff.new_id()), "execution_not_found")
    await unanswered(ff, GetStep(execution_id=ff.new_id(), step_name="x"), "execution_not_found")


async def test_steps_are_listed_in_the_order_of_their_calls(ff: Driver) -> None:
    task = await ff.running()
    for name, index in (("z", 2), ("m", 0), ("a", 1)):
        await ff.store.apply(step(task, name, call_index=index))
    await ff.store.apply(step(task, "last"))
    stored = (await ff.store.read(ListSteps(execution_id=task.execution_id))).steps
    assert [(one.name, one.call_index) for one in stored] == [("m", 0), ("a", 1), ("z", 2), ("last", 3)]


async def test_a_step_without_a_place_comes_after_all_others(ff: Driver) -> None:
    task = await ff.running()
    await ff.store.apply(step(task, "far", call_index=5))
    await ff.store.apply(step(task, "next"))
    stored = (await ff.store.read(ListSteps(execution_id=task.execution_id))).steps
    assert [(one.name, one.call_index) for one in stored] == [("far", 5), ("next", 6)]


async def test_only_the_holder_stores_steps(ff: Driver) -> None:
    task = await ff.running()
    for source in ("worker", "operator_override"):
        await refused(ff, step(task, "a", fence=NO_FENCE, source=source), "fence_required")
    await refused(ff, step(task, "a", fence=Fence(task.fence.lease_id)), "partial_fence_triple")
    for fence in (
        ff.stale(task),
        Fence(task.fence.lease_id, 9, task.attempt_id),
        Fence(task.fence.lease_id, task.fence.lease_epoch, new_uuid()),
    ):
        await refused(ff, step(task, "a", fence=fence), "stale_lease")
    unknown = PutStep(execution_id=ff.new_id(), fence=task.fence, step_name="a", result=b"")
    await refused(ff, unknown, "execution_not_found")


async def test_a_lost_lease_stores_nothing(ff: Driver) -> None:
    task, other = await ff.running(), await ff.running()
    await ff.store.apply(RevokeLease(execution_id=task.execution_id))
    await refused(ff, step(task, "a"), "lease_revoked")
    ff.clock.advance(LEASE)
    await refused(ff, step(other, "a"), "lease_expired")
    assert (await ff.show(other.execution_id)).ownership_state == "lease_expired_reclaimable"
    assert await names(ff, other) == []


async def test_ended_work_stores_nothing(ff: Driver) -> None:
    task = await ff.running()
    await put(ff, task, "a")
    await ff.complete(task)
    await refused(ff, step(task, "a"), "execution_not_active")


async def test_results_have_a_limit(ff: Driver) -> None:
    task = await ff.running()
    assert await ff.store.apply(step(task, "fits", b"x" * MAX_STEP_BYTES)) == StepStored()
    error = await refused(ff, step(task, "large", b"x" * (MAX_STEP_BYTES + 1)), "payload_too_large")
    assert (error.field, MAX_STEP_BYTES) == ("result", 1_048_576)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": ""}, "step_name"),
        ({"name": "n" * 257}, "step_name"),
        ({"name": "a\nb"}, "step_name"),
        ({"name": "a", "encoding": "e" * 257}, "encoding"),
        ({"name": "a", "call_index": -1}, "call_index"),
        ({"name": "a", "call_index": MAX_STEPS + 1}, "call_index"),
    ],
)
async def test_every_field_is_checked(ff: Driver, fields: dict[str, Any], field: str) -> None:
    task = await ff.running()
    assert (await refused(ff, step(task, **fields), "invalid_input")).field == field


async def test_an_execution_stores_so_many_steps(ff: Driver) -> None:
    task = await ff.running()
    for first in range(0, MAX_STEPS, 500):
        answers = await ff.store.apply_many([step(task, f"s{n}") for n in range(first, first + 500)])
        assert answers == [StepStored()] * 500
    error = await refused(ff, step(task, "one more"), "step_limit_exceeded")
    assert str(MAX_STEPS) in f"{error.text} {error.details}"
    assert MAX_STEPS == 10_000
    assert isinstance(await ff.store.apply(step(task, "s7")), StepExisting)
    assert (await ff.show(task.execution_id)).step_count == MAX_STEPS


async def _retried(ff: Driver, task: Task) -> Task:
    await ff.fail(task, retry_after_ms=0)
    return await ff.claim_one()


async def _expired(ff: Driver, task: Task) -> Task:
    ff.clock.advance(LEASE)
    await ff.store.apply(MarkLeaseExpired(execution_id=task.execution_id))
    return await ff.claim_one()


async def _released(ff: Driver, task: Task) -> Task:
    await let_go(ff, task)
    return await ff.claim_one()


async def _suspended(ff: Driver, task: Task) -> Task:
    await (await suspend(ff, task)).signal()
    return await ff.claim_one()


async def _delayed(ff: Driver, task: Task) -> Task:
    await ff.store.apply(Delay(execution_id=task.execution_id, fence=task.fence, delay_until=ff.now))
    return await ff.claim_one()


@pytest.mark.parametrize("again", [_retried, _expired, _released, _suspended, _delayed])
async def test_steps_survive(ff: Driver, again: Any) -> None:
    await ff.seed()
    task = await ff.running(policy={"retry_policy": {"max_retries": 1}})
    assert (task.steps, task.step_count) == ((), 0)
    await put(ff, task, "b", "a")
    second = await again(ff, task)
    assert [(one.name, one.result) for one in second.steps] == [("b", b'"b"'), ("a", b'"a"')]
    assert second.step_count == 2
    assert isinstance(await ff.store.apply(step(second, "a", b"other")), StepExisting)
    await put(ff, second, "c")
    assert await names(ff, task) == ["b", "a", "c"]


async def test_a_task_carries_256_kib_of_steps(ff: Driver) -> None:
    task = await ff.running()
    for number in range(4):
        await ff.store.apply(step(task, f"s{number}", bytes([number]) * 100 * KIB))
    await let_go(ff, task)
    again = await ff.claim_one()
    assert [one.name for one in again.steps] == ["s0", "s1"]
    assert again.step_count == 4
    rest = await ff.store.read(GetStep(execution_id=task.execution_id, step_name="s3"))
    assert rest is not None
    assert rest.result == bytes([3]) * 100 * KIB
    assert await names(ff, task) == ["s0", "s1", "s2", "s3"]


async def test_steps_of_just_256_kib_are_all_carried(ff: Driver) -> None:
    task = await ff.running()
    for number in range(4):
        await ff.store.apply(step(task, f"s{number}", b"x" * (63 * KIB)))
    await let_go(ff, task)
    assert len((await ff.claim_one()).steps) == 4


async def _ended(ff: Driver) -> Task:
    task = await ff.running()
    for name, index in (("c", 2), ("a", 0), ("b", 1)):
        await ff.store.apply(step(task, name, call_index=index))
    await ff.complete(task)
    return task


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, []),
        ({"keep_steps": True}, ["a", "b", "c"]),
        ({"from_step": "b"}, ["a"]),
        ({"from_step": "a"}, []),
        ({"from_step": "c"}, ["a", "b"]),
    ],
)
async def test_a_replay_keeps_what_it_is_asked_to(ff: Driver, given: dict[str, Any], kept: list[str]) -> None:
    task = await _ended(ff)
    await ff.store.apply(Replay(execution_id=task.execution_id, **given))
    again = await ff.claim_one()
    assert (again.attempt_type, [one.name for one in again.steps]) == ("replay", kept)
    assert again.step_count == len(kept)
    assert await names(ff, task) == kept
    if "c" not in kept:
        assert await ff.store.apply(step(again, "c", b"new")) == StepStored()
        assert (await names(ff, task))[-1] == "c"


async def test_a_replay_keeps_steps_in_one_way(ff: Driver) -> None:
    task = await _ended(ff)
    both = Replay(execution_id=task.execution_id, keep_steps=True, from_step="b")
    await refused(ff, both, "invalid_input")


async def test_a_replay_from_a_step_that_is_not_there(ff: Driver) -> None:
    task = await _ended(ff)
    error = await refused(ff, Replay(execution_id=task.execution_id, from_step="nope"), "not_found")
    assert error.field == "from_step"


async def test_steps_belong_to_one_execution(ff: Driver) -> None:
    one, two = await ff.running(), await ff.running()
    await put(ff, one, "a")
    assert await ff.store.apply(step(two, "a")) == StepStored()


async def test_steps_are_listed_in_pages_with_their_sizes(ff: Driver) -> None:
    task = await ff.running()
    for place in range(5):
        await ff.store.apply(step(task, f"s{place}", b"x" * place))
    await ff.store.apply(step(task, "same", b"12", call_index=3))
    seen, after, sizes = [], (-1, ""), []
    while True:
        page = await ff.store.read(ListSteps(execution_id=task.execution_id, after=after, limit=2))
        seen += [(one.name, one.call_index, one.size) for one in page.steps]
        sizes.append(len(page.steps))
        assert [one.result for one in page.steps] == [None] * len(page.steps)
        if page.next is None:
            break
        after = page.next
    assert sizes == [2, 2, 2]
    assert seen == [("s0", 0, 0), ("s1", 1, 1), ("s2", 2, 2), ("s3", 3, 3), ("same", 3, 2), ("s4", 4, 4)]


async def test_a_page_holds_the_first_results_as_far_as_they_fit(ff: Driver) -> None:
    task = await ff.running()
    for name, size in (("a", 300 * KIB), ("b", 700 * KIB), ("c", KIB), ("d", 1)):
        await ff.store.apply(step(task, name, b"x" * size))
    page = await ff.store.read(ListSteps(execution_id=task.execution_id, max_bytes=1_001 * KIB))
    assert [(one.name, one.result and len(one.result)) for one in page.steps] == [
        ("a", 300 * KIB),
        ("b", 700 * KIB),
        ("c", KIB),
        ("d", None),
    ]
    page = await ff.store.read(ListSteps(execution_id=task.execution_id, max_bytes=600 * KIB))
    assert [(one.name, one.size, one.result is None) for one in page.steps] == [
        ("a", 300 * KIB, False),
        ("b", 700 * KIB, True),
        ("c", KIB, True),
        ("d", 1, True),
    ]
    read = [one.result async for one in every_step(ff.store, task.execution_id, 400 * KIB)]
    assert [None if one is None else len(one) for one in read] == [300 * KIB, None, None, None]


async def test_the_list_tells_the_size_of_what_a_wait_has_stored(ff: Driver) -> None:
    wait = await suspended(ff, step_name="wait:1")
    await wait.signal()
    page = await ff.store.read(ListSteps(execution_id=wait.execution_id, max_bytes=KIB))
    (one,) = page.steps
    assert one.result is not None
    assert (one.name, one.size, one.encoding) == ("wait:1", len(one.result), "json")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 1_001}, "limit"),
        ({"after": (-2, "")}, "after"),
        ({"after": (0, "x" * 257)}, "after"),
        ({"max_bytes": MAX_STEP_BYTES_IN_PAGE + 1}, "max_bytes"),
    ],
)
async def test_questions_for_steps_are_checked(ff: Driver, fields: dict[str, Any], field: str) -> None:
    question = ListSteps(execution_id=await ff.create(), **fields)
    assert (await unanswered(ff, question, "invalid_input")).field == field


async def test_replayed_from_a_step_of_the_same_group(ff: Driver) -> None:
    """What was stored moments ago counts, too."""
    task = await ff.running()
    await put(ff, task, "a", "b")
    replies = await ff.store.apply_many(
        [
            step(task, "c"),
            Complete(execution_id=task.execution_id, fence=task.fence, result=b""),
            Replay(execution_id=task.execution_id, from_step="b"),
        ]
    )
    assert not [reply for reply in replies if isinstance(reply, Exception)]
    assert await names(ff, task) == ["a"]
    again = await ff.claim_one()
    assert [one.name for one in again.steps] == ["a"]
