"""Many at once: commands of one batch, and callers side by side, see each other's decisions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.model import limits
from flowfabric.model.contracts.base import Command
from flowfabric.model.contracts.create import Created, CreateExecution, Duplicate
from flowfabric.model.contracts.lease import Claim, Claimed, Complete, Completed, Fail, Renew, Renewed
from flowfabric.model.contracts.reads import ListLeases
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.state import Public
from support.driver import Driver, new_uuid


def claim(instance: str = "w1-a", **fields: Any) -> Claim:
    given = {"worker_id": "w1", "worker_instance_id": instance, "lanes": ("default",), "mint": new_uuid()}
    return Claim(**given | fields)


async def test_no_commands_no_answers(ff: Driver) -> None:
    assert await ff.store.apply_many([]) == []


async def test_work_of_a_batch_is_claimed_once(ff: Driver) -> None:
    create = CreateExecution(execution_id=ff.new_id(), execution_kind="job")
    commands: list[Command[Any]] = [claim("w0-a"), create, claim("w1-a"), claim("w2-a")]
    before, created, first, second = await ff.store.apply_many(commands)
    assert created == Created(create.execution_id, Public.WAITING)
    assert isinstance(first, Claimed)
    assert [task.execution_id for task in first.tasks] == [create.execution_id]
    assert before == second == Claimed(())


async def test_second_end_of_a_batch_is_judged_after_the_first(ff: Driver) -> None:
    task = await ff.running()
    fields: dict[str, Any] = {"execution_id": task.execution_id, "fence": task.fence}
    commands: list[Command[Any]] = [
        Renew(**fields),
        Complete(**fields, result=b"1"),
        Complete(**fields, result=b"2"),
        Fail(**fields, reason="too late"),
        Renew(**fields),
    ]
    *answers, failed, renewed = await ff.store.apply_many(commands)
    assert answers == [
        Renewed(ff.now + limits.DEFAULT_LEASE_TTL_MS),
        *[Completed(task.execution_id, Public.COMPLETED)] * 2,
    ]
    assert isinstance(failed, FlowFabricError)
    assert isinstance(renewed, FlowFabricError)
    assert failed.code == renewed.code == "execution_not_active"
    assert failed.details == ("success", "1", "terminal", task.attempt_id)


async def test_claims_side_by_side_share_the_work_without_overlap(ff: Driver) -> None:
    made = {await ff.create() for _ in range(40)}
    claims = [ff.claim(worker_instance_id=f"w{n}-a", max_tasks=3) for n in range(20)]
    tasks = [task for batch in await asyncio.gather(*claims) for task in batch]
    assert len(tasks) == 40
    assert {task.execution_id for task in tasks} == made
    assert len({task.fence.lease_id for task in tasks}) == 40


async def test_creations_side_by_side_with_one_key_make_one_execution(ff: Driver) -> None:
    commands = [
        CreateExecution(execution_id=ff.new_id(), execution_kind="job", idempotency_key="k")
        for _ in range(20)
    ]
    answers = await asyncio.gather(*(ff.store.apply(command) for command in commands))
    created = [answer for answer in answers if isinstance(answer, Created)]
    assert len(created) == 1
    expected = Duplicate(created[0].execution_id, "waiting")
    assert [answer for answer in answers if isinstance(answer, Duplicate)] == [expected] * 19


async def test_leases_of_a_worker_are_those_it_holds(ff: Driver) -> None:
    tasks = [await ff.running() for _ in range(3)]
    await ff.complete(tasks[0])
    held = await ff.store.read(ListLeases(worker_instance_id="w1-a"))
    assert sorted(held) == sorted(task.execution_id for task in tasks[1:])
    assert await ff.store.read(ListLeases(worker_instance_id="w2-a")) == ()


LARGEST = 2**53 - 1


def _integers(value: object) -> list[int]:
    if isinstance(value, int):
        return [value]
    if isinstance(value, dict):
        return [number for pair in value.items() for part in pair for number in _integers(part)]
    if isinstance(value, list | tuple):
        return [number for part in value for number in _integers(part)]
    fields = getattr(value, "__struct_fields__", ())
    return [number for field in fields for number in _integers(getattr(value, field))]


@pytest.mark.parametrize(
    "policy",
    [
        {"timeout_policy": {"attempt_timeout_ms": LARGEST}},
        {"timeout_policy": {"execution_deadline_ms": LARGEST}},
        {"stream_policy": {"retention_ttl_ms": LARGEST}},
        {"dedup_window_ms": LARGEST},
        {"retry_policy": {"backoff": {"type": "fixed", "delay_ms": LARGEST}}},
        {
            "retry_policy": {
                "backoff": {"type": "exponential", "initial_delay_ms": 2**52, "max_delay_ms": LARGEST}
            }
        },
    ],
    ids=lambda policy: str(next(iter(policy))),
)
async def test_largest_numbers_never_grow_beyond_what_every_store_keeps(
    ff: Driver, policy: dict[str, Any]
) -> None:
    task = await ff.running(policy=policy, idempotency_key="k")
    await ff.fail(task)
    assert max(_integers(await ff.store.dump())) <= LARGEST


async def test_largest_delay_of_a_retry_is_kept_within_bounds(ff: Driver) -> None:
    task = await ff.running(policy={"retry_policy": {}})
    answer = await ff.fail(task, retry_after_ms=LARGEST)
    assert max(_integers(answer)) <= LARGEST
    assert max(_integers(await ff.store.dump())) <= LARGEST
