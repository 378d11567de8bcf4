"""Reading one execution: its input, its result, its attempts, and what is due."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model.command import ExecutionQuestion
from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.operations.operate import Replay
from flowfabric.model.operations.read import GetPayload, GetResult, ListAttempts
from flowfabric.model.operations.signal import ObserveSignals
from flowfabric.model.operations.stream import ReadSummary, TailStream
from flowfabric.model.operations.suspend_resume import GetSuspension
from flowfabric.model.operations.timer import ReadDue
from support.driver import LEASE, Driver
from support.waiting import let_go, suspended, unanswered

BYTES = bytes(range(256))
NOWHERE = "{fp:0}:11111111-1111-1111-1111-111111111111"


async def result(ff: Driver, execution_id: str, **fields: Any) -> tuple[str, bytes | None, str]:
    view = await ff.store.read(GetResult(execution_id=execution_id, **fields))
    if view.result is None:
        return str(view.public_state), None, ""
    return str(view.public_state), view.result.data, view.result.encoding


async def test_the_input_and_the_policy_are_kept_as_they_came(ff: Driver) -> None:
    policy = b'{"priority": 7,  "unknown": [1, 2.50]}'
    execution_id = await ff.create(input_payload=BYTES, payload_encoding="raw")
    other = await ff.create()
    third = ff.new_id()
    await ff.store.apply(CreateExecution(execution_id=third, execution_kind="job", policy=policy))
    payload = await ff.store.read(GetPayload(execution_id=execution_id))
    assert (payload.input, payload.policy_json) == (BYTES, b"")
    assert (await ff.store.read(GetPayload(execution_id=other))).input == b""
    assert (await ff.store.read(GetPayload(execution_id=third))).policy_json == policy
    assert (await ff.show(execution_id)).payload_encoding == "raw"


async def test_there_is_no_result_before_the_end(ff: Driver) -> None:
    task = await ff.running()
    assert await result(ff, task.execution_id) == ("active", None, "")
    await ff.complete(task, BYTES, result_encoding="raw")
    assert await result(ff, task.execution_id) == ("completed", BYTES, "raw")


@pytest.mark.parametrize("given", [None, b""])
async def test_a_completed_execution_without_a_result(ff: Driver, given: bytes | None) -> None:
    task = await ff.running()
    await ff.complete(task, given)
    state, data, _ = await result(ff, task.execution_id)
    assert (state, data or b"") == ("completed", b"")


async def test_a_failed_execution_has_no_result(ff: Driver) -> None:
    task = await ff.running()
    await ff.fail(task)
    assert await result(ff, task.execution_id) == ("failed", None, "")


async def test_a_replay_hides_the_earlier_result(ff: Driver) -> None:
    task = await ff.running()
    await ff.complete(task, b"first")
    await ff.store.apply(Replay(execution_id=task.execution_id))
    assert await result(ff, task.execution_id) == ("waiting", None, "")
    assert (await result(ff, task.execution_id, attempt_index=0))[1] == b"first"
    again = await ff.claim_one()
    assert (await result(ff, task.execution_id))[1] is None
    await ff.complete(again, b"second")
    assert (await result(ff, task.execution_id))[1] == b"second"
    assert (await result(ff, task.execution_id, attempt_index=0))[1] == b"first"


async def test_attempts_are_listed_the_current_one_last(ff: Driver) -> None:
    execution_id = await ff.create(policy={"retry_policy": {}})
    assert await ff.store.read(ListAttempts(execution_id=execution_id)) == ()
    first = await ff.claim_one()
    await ff.fail(first, "boom", retry_after_ms=0, detail="trace")
    second = await ff.claim_one()
    await let_go(ff, second)
    await ff.claim_one(worker_id="w2", worker_instance_id="w2-a")
    attempts = await ff.store.read(ListAttempts(execution_id=execution_id))
    assert [(one.index, one.kind, str(one.life)) for one in attempts] == [
        (0, "initial", "ended_failure"),
        (1, "retry", "interrupted_reclaimed"),
        (2, "reclaim", "started"),
    ]
    assert (attempts[0].failure_reason, attempts[0].failure_detail) == ("boom", "trace")
    assert attempts[2].worker_id == "w2"
    assert [one.previous_index for one in attempts[1:]] == [0, 1]


@pytest.mark.parametrize(
    "question",
    [
        GetPayload(execution_id=NOWHERE),
        GetResult(execution_id=NOWHERE),
        ListAttempts(execution_id=NOWHERE),
        GetSuspension(execution_id=NOWHERE),
        ObserveSignals(execution_id=NOWHERE),
        TailStream(execution_id=NOWHERE, attempt_index=0),
        ReadSummary(execution_id=NOWHERE, attempt_index=0),
    ],
    ids=lambda question: type(question).__name__,
)
async def test_an_unknown_execution(ff: Driver, question: ExecutionQuestion[Any]) -> None:
    await unanswered(ff, question, "execution_not_found")


async def test_questions_about_malformed_ids(ff: Driver) -> None:
    await unanswered(ff, GetPayload(execution_id="nope"), "invalid_input")


async def test_reading_changes_nothing(ff: Driver) -> None:
    wait = await suspended(ff)
    before = await ff.store.dump()
    for question in (GetPayload, GetResult, ListAttempts, GetSuspension, ObserveSignals):
        await ff.store.read(question(execution_id=wait.execution_id))
    assert await ff.store.dump() == before


async def due(ff: Driver, **fields: Any) -> tuple[list[str], int]:
    page = await ff.store.read(ReadDue(**fields))
    return [entry.key[0] for entry in page.entries], page.next_due_at


async def test_what_is_due_comes_in_the_order_of_its_time(ff: Driver) -> None:
    assert await due(ff) == ([], 0)
    await ff.create()
    start = ff.now
    late = await ff.create(delay_until=start + 300)
    soon = await ff.create(execution_deadline_at=start + 100)
    middle = (await suspended(ff, timeout_ms=200, create={"lane_id": "other"})).execution_id
    held = await ff.running(lane_id="third")
    assert await due(ff) == ([], start + 100)
    ff.clock.advance(250)
    assert await due(ff) == ([soon, middle], start + 300)
    assert await due(ff, before=start + 300) == ([soon, middle, late], start + LEASE)
    assert await due(ff, before=start + 100) == ([soon], start + 200)
    assert await due(ff, before=start + LEASE) == (
        [soon, middle, late, held.execution_id],
        0,
    )
    assert (await due(ff, before=start + LEASE, limit=2))[0] == [soon, middle]
