"""Commands that share a call of the server."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace

from flowfabric.model.command import Command
from flowfabric.model.errors import FlowFabricError, Unreachable
from flowfabric.model.operations.claim import Claim, Claimed
from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.operations.finish import Complete, Completed
from flowfabric.model.operations.grant import ClaimedOne, GrantAndClaim
from flowfabric.model.operations.lane import PauseLane, UnpauseLane
from flowfabric.model.operations.operate import SetTags
from flowfabric.model.operations.step import PutStep
from flowfabric.storage.base import Upkeep
from flowfabric.storage.valkey import ValkeyStore
from flowfabric.storage.valkey.connection.several import MOST, MOST_BYTES, grouped, together
from support.driver import Driver, new_uuid


def call(
    function: str = "ff_renew_lease", *, time: str = "", home: str = "ff:", size: int = 1
) -> tuple[Any, ...]:
    return ("FCALL", function, 1, home, time, "0.5", b"x" * size)


def sizes(*calls: tuple[Any, ...]) -> list[int]:
    return [len(group) for group, _ in grouped([(each, None) for each in calls])]


def claim(worker: str, **fields: Any) -> Claim:
    return Claim(worker_id=worker, worker_instance_id=worker, lanes=("default",), mint=new_uuid(), **fields)


async def calls_of(store: Upkeep) -> int:
    assert isinstance(store, ValkeyStore)
    text: bytes = await store.client.call("INFO", "commandstats")
    counted = next(line for line in text.decode().splitlines() if line.startswith("cmdstat_fcall:"))
    return int(counted.split("calls=")[1].split(",")[0])


def test_what_can_share_a_call() -> None:
    assert sizes(call(), call("ff_claim"), call("ff_complete_execution")) == [3]
    assert sizes(*[call()] * (MOST + 1)) == [MOST, 1]
    assert sizes(call(), ("TIME",), call(), call("ff_take_baton"), call()) == [1, 1, 1, 1, 1]
    assert sizes(call("ff_purge_execution"), call("ff_purge_execution")) == [1, 1]
    assert sizes(call(time="1"), call(time="1"), call(time="2")) == [2, 1]
    assert sizes(call(home="ff:{fp:1}:"), call(home="ff:{fp:1}:")) == [1, 1]


def test_large_commands_go_alone() -> None:
    assert sizes(call(size=MOST_BYTES + 1), call(), call()) == [1, 2]
    assert sizes(call(), call(size=MOST_BYTES), call()) == [1, 1, 1]


def test_one_call_of_several() -> None:
    first, second = (*call(), b"one", b"two"), call("ff_claim")
    assert together([first, second]) == (
        "FCALL",
        "ff_several",
        1,
        "ff:",
        "",
        "ff_renew_lease",
        "0.5",
        b"x",
        2,
        b"one",
        b"two",
        "ff_claim",
        "0.5",
        b"x",
        0,
    )


async def test_commands_of_one_turn_are_one_call(ff: Driver) -> None:
    for _ in range(6):
        await ff.create()
    before = await calls_of(ff.store)
    claimed = await asyncio.gather(*(ff.store.apply(claim(f"w{number}")) for number in range(6)))
    tasks = [task for each in claimed for task in each.tasks]
    done = await asyncio.gather(
        *(ff.store.apply(Complete(execution_id=task.execution_id, fence=task.fence)) for task in tasks)
    )
    assert await calls_of(ff.store) == before + 2
    assert len({task.execution_id for task in tasks}) == 6 == len(done)


async def test_a_refusal_is_its_own_alone(ff: Driver) -> None:
    task = await ff.running()
    ending = Complete(execution_id=task.execution_id, fence=task.fence)
    stale = Complete(execution_id=task.execution_id, fence=replace(task.fence, lease_id=new_uuid()))
    first, second, third = await ff.store.apply_many([stale, ending, ending])
    assert isinstance(first, FlowFabricError)
    assert first.code == "stale_lease"
    assert isinstance(second, Completed)
    assert third == second


async def test_claims_of_one_call_see_what_came_before_them(ff: Driver) -> None:
    first, second = ff.new_id(), ff.new_id()
    commands: list[Command[Any]] = [
        claim("a"),
        CreateExecution(execution_id=first, execution_kind="job"),
        claim("b"),
        claim("c"),
        CreateExecution(execution_id=second, execution_kind="job"),
        claim("d"),
    ]
    replies = await ff.store.apply_many(commands)
    taken = [[task.execution_id for task in reply.tasks] for reply in replies if isinstance(reply, Claimed)]
    assert taken == [[], [first], [], [second]]


async def test_claims_of_one_call_see_that_a_lane_rests(ff: Driver) -> None:
    names = {await ff.create(), await ff.create()}
    commands: list[Command[Any]] = [
        claim("a"),
        PauseLane(lane_id="default"),
        claim("b"),
        UnpauseLane(lane_id="default"),
        claim("c"),
    ]
    replies = await ff.store.apply_many(commands)
    first, resting, last = [reply.tasks for reply in replies if isinstance(reply, Claimed)]
    assert resting == ()
    assert {task.execution_id for task in (*first, *last)} == names


async def test_a_repeated_claim_of_one_call_gets_the_same_tasks(ff: Driver) -> None:
    await ff.create()
    await ff.create()
    first, again = await ff.store.apply_many([claim("a", claim_id="once"), claim("a", claim_id="once")])
    assert isinstance(first, Claimed)
    assert first == again
    assert len(first.tasks) == 1


async def test_indexes_are_right_when_one_call_moves_work_there_and_back(ff: Driver) -> None:
    name = ff.new_id()
    create = CreateExecution(execution_id=name, execution_kind="job", tags=(("team", "a"),))
    await ff.store.apply_many([create, claim("a"), claim("b")])
    assert (await ff.store.repair(fix=False)).wrong == ()


async def test_what_one_call_has_created_is_whole_for_those_behind(ff: Driver) -> None:
    name = ff.new_id()
    create = CreateExecution(
        execution_id=name, execution_kind="job", input_payload=b"\xff", policy=b'{"priority": 2}'
    )
    take = GrantAndClaim(
        execution_id=name, worker_id="w", worker_instance_id="w-a", lease_id=new_uuid(), attempt_id=new_uuid()
    )
    _, claimed = await ff.store.apply_many([create, take])
    assert isinstance(claimed, ClaimedOne)
    assert (claimed.task.input, claimed.task.policy) == (b"\xff", b'{"priority": 2}')


async def test_what_cannot_be_written_harms_nobody_else(ff: Driver) -> None:
    assert isinstance(ff.store, ValkeyStore)
    broken, whole = await ff.running(), await ff.create()
    await ff.store.client.call("SET", f"ff:{broken.execution_id}:step", "no hash")
    replies = await ff.store.apply_many(
        [
            SetTags(execution_id=whole, tags=(("a", "1"),)),
            PutStep(execution_id=broken.execution_id, fence=broken.fence, step_name="s", result=b"1"),
            SetTags(execution_id=whole, tags=(("b", "2"),)),
        ]
    )
    assert [isinstance(reply, FlowFabricError) for reply in replies] == [False, True, False]
    assert (await ff.show(whole)).tags == (("a", "1"), ("b", "2"))


async def test_a_refused_command_leaves_nothing_to_those_behind(ff: Driver) -> None:
    task, name = await ff.running(), ff.new_id()
    stale = replace(task.fence, lease_id=new_uuid())
    create = CreateExecution(execution_id=name, execution_kind="job", flow_id="{fp:1}:" + new_uuid())
    commands: list[Command[Any]] = [
        create,
        Complete(execution_id=task.execution_id, fence=stale),
        CreateExecution(execution_id=name, execution_kind="other"),
        Complete(execution_id=task.execution_id, fence=task.fence),
    ]
    replies = await ff.store.apply_many(commands)
    assert [isinstance(reply, FlowFabricError) for reply in replies] == [True, True, False, False]
    assert (await ff.show(name)).execution_kind == "other"
    assert (await ff.store.repair(fix=False)).wrong == ()


async def test_an_error_of_the_whole_call_is_everybodys(ff: Driver) -> None:
    """A server that has lost its library did nothing: all of them are asked again, once it is loaded."""
    assert isinstance(ff.store, ValkeyStore)
    await ff.store.client.call("FUNCTION", "FLUSH")
    replies = await asyncio.gather(*(ff.store.apply(claim(f"w{number}")) for number in range(3)))
    assert [reply.tasks for reply in replies] == [(), (), ()]


async def test_a_lost_connection_is_told_to_each(ff: Driver) -> None:
    assert isinstance(ff.store, ValkeyStore)
    await ff.claim()
    asking = [asyncio.ensure_future(ff.store.apply(claim(f"w{number}"))) for number in range(3)]
    await asyncio.sleep(0)
    ff.store.client._functions._wire.abort("cut")  # type: ignore[union-attr]
    replies = await asyncio.gather(*asking, return_exceptions=True)
    assert all(isinstance(reply, Unreachable) for reply in replies)
