"""Frames, summaries, steps and retention on Valkey: as the machine in Python has them, and nothing is lost or left."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from flowfabric.model.command import Command
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.limits import DAY_MS, MAX_STEP_BYTES_IN_TASK
from flowfabric.model.operations.claim import Claim, Task
from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.operations.finish import Complete, Completed, Delay, WaitChildren
from flowfabric.model.operations.lease import UpdateProgress
from flowfabric.model.operations.step import ListSteps, PutStep
from flowfabric.model.operations.stream import AppendFrames, FrameInput, ReadSummary
from flowfabric.model.operations.timer import ExpireExecution, MarkLeaseExpired, PromoteDelayed, Purge
from flowfabric.storage.memory import MemoryStore
from flowfabric.storage.valkey import ValkeyStore, keys
from flowfabric.storage.valkey.upkeep.inspect import everything
from support.clock import ManualClock
from support.driver import Driver, new_uuid
from support.stores import half
from support.valkey import ValkeyServer

BINARY = bytes(range(256))


def valkey_of(ff: Driver) -> ValkeyStore:
    assert isinstance(ff.store, ValkeyStore)
    return ff.store


def patch(task: Task, *documents: object) -> AppendFrames:
    frames = [FrameInput(payload=json.dumps(document).encode(), mode="summary") for document in documents]
    return AppendFrames(execution_id=task.execution_id, fence=task.fence, frames=tuple(frames))


async def document(ff: Driver, task: Task) -> tuple[int, Any]:
    view = await ff.store.read(ReadSummary(execution_id=task.execution_id, attempt_index=task.attempt_index))
    assert view is not None
    return view.version, json.loads(view.document)


async def test_patches_of_two_processes_are_all_kept(ff: Driver, server: ValkeyServer) -> None:
    task = await ff.running()
    other = await ValkeyStore.open(server.url, clock=ff.clock)
    stores = [ff.store, other] * 10
    sent = [store.apply(patch(task, {str(place): place})) for place, store in enumerate(stores)]
    try:
        answers = await asyncio.gather(*sent)
    finally:
        await other.close()
    assert sorted(answer[0].summary_version for answer in answers) == list(range(1, 21))
    assert await document(ff, task) == (20, {str(place): place for place in range(20)})


async def test_a_holder_appends_in_one_round_trip(ff: Driver) -> None:
    task = await ff.running()
    client = valkey_of(ff).client
    frames = (FrameInput(payload=b"a"), FrameInput(payload=b"b", mode="best_effort"))
    before = client.writes
    await ff.store.apply(AppendFrames(execution_id=task.execution_id, fence=task.fence, frames=frames))
    assert client.writes == before + 1


async def test_what_is_sent_together_keeps_its_order(ff: Driver) -> None:
    task = await ff.running()
    done = Complete(execution_id=task.execution_id, fence=task.fence)
    commands: list[Command[Any]] = [patch(task, {"a": 1}), done, patch(task, {"b": 1})]
    replies: list[Any] = await ff.store.apply_many(commands)
    assert isinstance(replies[1], Completed)
    assert (replies[0][0].summary_version, replies[2].code) == (1, "stream_closed")
    assert await document(ff, task) == (1, {"a": 1})


async def test_a_task_carries_the_first_steps_that_fit(ff: Driver) -> None:
    task = await ff.running()
    names = [f"s{place}" for place in range(250)]
    for place, name in reversed(list(enumerate(names))):
        result = BINARY if place < 240 else b"x" * (MAX_STEP_BYTES_IN_TASK // 4)
        await ff.store.apply(
            PutStep(
                execution_id=task.execution_id,
                fence=task.fence,
                step_name=name,
                result=result,
                call_index=place,
            )
        )
    await ff.store.apply(Delay(execution_id=task.execution_id, fence=task.fence, delay_until=0))
    again = await ff.claim_one()
    assert [step.name for step in again.steps] == names[:243]
    assert (again.steps[0].result, again.step_count) == (BINARY, 250)
    assert len((await ff.store.read(ListSteps(execution_id=task.execution_id))).steps) == 250


async def test_a_purge_leaves_only_the_feed_and_that_for_a_day(ff: Driver) -> None:
    empty = set(await valkey_of(ff).carry_out(everything()))
    task = await ff.running(tags=(("a", "b"),), input_payload=b"x", policy={"priority": 3})
    fence: dict[str, Any] = {"execution_id": task.execution_id, "fence": task.fence}
    await ff.store.apply(patch(task, {"a": 1}))
    await ff.store.apply_many([PutStep(**fence, step_name=f"s{n}", result=b"1") for n in range(600)])
    await ff.store.apply(Complete(**fence, result=b"2"))
    ff.clock.advance(DAY_MS)
    assert (await ff.store.apply(Purge(execution_id=task.execution_id))).outcome == "purged"
    held = await valkey_of(ff).carry_out(everything())
    assert not [name for name in held if task.execution_id in name]
    assert not {name for name, value in held.items() if value} & {keys.DUE, keys.ARRIVALS}
    lines = len(held[keys.FEED])
    assert lines == 603
    ff.clock.advance(DAY_MS + 1)
    assert await ff.store.collect() >= lines
    left = {name for name, value in (await valkey_of(ff).carry_out(everything())).items() if value}
    assert left - empty <= {keys.FEED_FLOOR, keys.TALLY, "routes:default", "total:", "total:default"}


class Walk:
    """Random commands of a few holders, to Valkey and to the machine."""

    def __init__(self, seed: int, valkey: ValkeyStore, machine: MemoryStore, clock: ManualClock) -> None:
        self.chance = random.Random(seed)
        self.stores = (valkey, machine)
        self.clock = clock
        self.tasks: list[Task] = []

    async def step(self) -> None:
        self.clock.advance(self.chance.choice((-3, 0, 0, 1, 1, 7, 7, 90, 90, 1_000, 4_000, 20_000)))
        command = self.command()
        answers = [await self.answer(store, command) for store in self.stores]
        assert answers[0] == answers[1], command
        if isinstance(command, Claim):
            self.tasks += answers[0].tasks

    async def answer(self, store: ValkeyStore | MemoryStore, command: Command[Any]) -> Any:
        try:
            return await store.apply(command)
        except FlowFabricError as error:
            return error.code, error.field, error.details, str(error)

    def command(self) -> Command[Any]:
        pick = self.chance.choice
        if not self.tasks or self.chance.random() < 0.15:
            return self.work()
        task = pick(self.tasks[-4:])
        fence: dict[str, Any] = {"execution_id": task.execution_id, "fence": task.fence}
        if self.chance.random() < 0.5:
            frames = tuple(self.frame() for _ in range(self.chance.randint(1, 4)))
            return AppendFrames(**fence, frames=frames, attempt_index=pick((None, None, None, 0)))
        at = self.clock.now + pick((-5, 0, 10, 5_000))
        return pick(
            (
                PutStep(
                    **fence, step_name=pick("abc"), result=pick((b"", BINARY)), call_index=pick((None, 0, 3))
                ),
                UpdateProgress(**fence, pct=pick((None, 0, 50)), message=pick((None, "", "half"))),
                Delay(**fence, delay_until=at),
                WaitChildren(**fence),
                Complete(**fence),
                PromoteDelayed(execution_id=task.execution_id),
                MarkLeaseExpired(execution_id=task.execution_id),
                ExpireExecution(execution_id=task.execution_id),
                ExpireExecution(execution_id=task.execution_id, reason="execution_deadline"),
                Purge(execution_id=task.execution_id),
            )
        )

    def work(self) -> Command[Any]:
        if self.chance.random() < 0.5:
            return Claim(
                worker_id="w",
                worker_instance_id="w-a",
                lanes=("default",),
                mint=new_uuid(),
                lease_ttl_ms=60_000,
            )
        policy = {
            "stream_policy": {"retention_ttl_ms": 40_000, "retention_maxlen": self.chance.choice((3, 100))},
            "timeout_policy": {
                "attempt_timeout_ms": self.chance.choice((0, 3_000, 30_000)),
                "execution_deadline_ms": self.chance.choice((0, 0, 30_000)),
            },
            "retry_policy": {
                "max_retries": self.chance.choice((0, 2)),
                "backoff": {
                    "type": "exponential",
                    "initial_delay_ms": 100,
                    "max_delay_ms": 3_000,
                    "multiplier": 2,
                },
                "jitter": self.chance.choice((True, False)),
            },
        }
        return CreateExecution(
            execution_id=f"{{fp:0}}:{new_uuid()}",
            execution_kind="job",
            policy=json.dumps(self.chance.choice((policy, {}))).encode(),
        )

    def frame(self) -> FrameInput:
        pick = self.chance.choice
        patches = (b'{"a":{"b":1.0}}', b'{"a":null}', b'{"c":"__ff_null__"}', b"[]", b"{", b'{"a":[1,{}]}')
        mode = pick(("", "durable", "summary", "summary", "best_effort", "best_effort", "odd"))
        return FrameInput(
            payload=pick(patches[:3]) if self.chance.random() < 0.9 else pick((*patches, BINARY)),
            mode=mode,
            ts=pick((None, 0, 5)),
            ttl_ms=pick((0, 1, 40, 3_000)),
            retention_maxlen=pick((0, 0, 1, 4)),
            maxlen_floor=pick((0, -1, 1, 5)),
            maxlen_ceiling=pick((0, 2, 9)),
            ema_alpha=pick((0, 0.3, 1, 2.5, True)),
        )


@pytest.mark.parametrize("seed", range(12))
async def test_random_holders_agree_with_the_machine(server: ValkeyServer, seed: int) -> None:
    clock = ManualClock()
    valkey = await ValkeyStore.open(server.url, clock=clock, chance=half)
    machine = MemoryStore(clock=clock, chance=half)
    walk = Walk(seed, valkey, machine, clock)
    try:
        for _ in range(15):
            for _ in range(10):
                await walk.step()
            assert await valkey.dump() == await machine.dump()
    finally:
        await valkey.close()
