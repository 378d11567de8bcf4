"""A process that works on a shared file until it is killed, and says after each answer what it was promised.

Run as `python -m support.chaos.stream <database> <name> <seed>`. Every line that it writes is one acknowledged fact.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import uuid
from typing import Any, ClassVar, TypeVar

from msgspec import json

from flowfabric.model import ids
from flowfabric.model.command import Command
from flowfabric.model.conditions import single
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.operations.access_secret import SeedSecret
from flowfabric.model.operations.claim import Claim, Task
from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.operations.finish import Complete, Fail
from flowfabric.model.operations.lease import Release
from flowfabric.model.operations.signal import DeliverSignal
from flowfabric.model.operations.step import PutStep
from flowfabric.model.operations.stream import AppendFrames, FrameInput
from flowfabric.model.operations.suspend import Binding, Suspend, Suspended
from flowfabric.storage.base import Commands
from flowfabric.storage.sqlite import SqliteStore

R = TypeVar("R")
SECRET = "ab" * 32
LEASE_MS = 20_000
SLOTS = 4
POLICY = b'{"retry_policy":{"max_retries":50,"backoff":{"type":"fixed","delay_ms":0}}}'


def say(**fact: Any) -> None:
    """Tell the parent what was acknowledged; one short write, so that a kill cannot cut it."""
    os.write(1, json.encode(fact) + b"\n")


class Slot:
    """One of several streams of operations in a process, so that they share transactions."""

    lease_ms = LEASE_MS
    patience: ClassVar[dict[str, Any]] = {}
    """What a suspension says about its end."""

    def __init__(self, store: Commands, name: str, seed: int) -> None:
        self.store = store
        self.name = name
        self.random = random.Random(seed)

    async def ask(self, command: Command[R]) -> R:
        """Have a command decided."""
        return await self.store.apply(command)

    def say(self, **fact: Any) -> None:
        """Tell what was acknowledged."""
        say(**fact)

    def uuid(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    async def run(self) -> None:
        while True:
            await self.turn()

    async def turn(self) -> None:
        await self.submit()
        for task in await self.claim():
            try:
                await self.work(task)
            except FlowFabricError as error:
                if not self.forgives(error):
                    raise

    def forgives(self, error: FlowFabricError) -> bool:
        """Whether work goes on after a refusal."""
        return error.code in {"lease_expired", "stale_lease"}

    async def submit(self) -> None:
        execution_id = ids.spread(self.uuid(), self.store.partitions)
        payload = self.random.randbytes(self.random.choice((0, 10, 3_000)))
        await self.ask(
            CreateExecution(
                execution_id=execution_id, execution_kind="job", input_payload=payload, policy=POLICY
            )
        )
        self.say(fact="submit", id=execution_id, size=len(payload))

    async def claim(self) -> tuple[Task, ...]:
        claim = Claim(
            worker_id="w",
            worker_instance_id=self.name,
            lanes=("default",),
            mint=self.uuid(),
            max_tasks=2,
            lease_ttl_ms=self.lease_ms,
            claim_id=self.uuid(),
        )
        tasks = (await self.ask(claim)).tasks
        for task in tasks:
            self.say(
                fact="claim", id=task.execution_id, epoch=task.fence.lease_epoch, attempt=task.attempt_index
            )
        return tasks

    async def work(self, task: Task) -> None:
        mine: dict[str, Any] = {"execution_id": task.execution_id, "fence": task.fence}
        about = {"id": task.execution_id, "attempt": task.attempt_index, "epoch": task.fence.lease_epoch}
        if self.random.random() < 0.4:
            await self.frames(mine, about)
        if self.random.random() < 0.4:
            await self.step(mine, about)
        end = self.random.random()
        if end < 0.5:
            result = self.random.randbytes(self.random.choice((1, 500)))
            await self.ask(Complete(**mine, result=result))
            self.say(fact="complete", **about, result=result.hex())
        elif end < 0.65:
            await self.ask(Fail(**mine, reason="again"))
            self.say(fact="fail", **about)
        elif end < 0.9:
            await self.suspend(mine, about)
        else:
            await self.ask(Release(**mine))
            self.say(fact="release", **about)

    async def frames(self, mine: dict[str, Any], about: dict[str, Any]) -> None:
        payloads = [self.random.randbytes(20) for _ in range(self.random.randint(1, 3))]
        answer = await self.ask(
            AppendFrames(**mine, frames=tuple(FrameInput(payload) for payload in payloads))
        )
        for payload, appended in zip(payloads, answer, strict=True):
            self.say(fact="frame", **about, entry=appended.entry_id, payload=payload.hex())

    async def step(self, mine: dict[str, Any], about: dict[str, Any]) -> None:
        name, result = self.uuid(), self.random.randbytes(30)
        await self.ask(PutStep(**mine, step_name=name, result=result))
        self.say(fact="step", **about, name=name, result=result.hex())

    async def suspend(self, mine: dict[str, Any], about: dict[str, Any]) -> None:
        binding = Binding(self.uuid(), "k")
        answer = await self.ask(
            Suspend(
                **mine,
                suspension_id=self.uuid(),
                waitpoints=(binding,),
                condition=single("k"),
                idempotency_key=self.uuid(),
                **self.patience,
            )
        )
        assert isinstance(answer, Suspended)
        self.say(fact="suspend", **about)
        signal_id = self.uuid()
        await self.ask(
            DeliverSignal(
                execution_id=mine["execution_id"],
                waitpoint_id=binding.waitpoint_id,
                signal_id=signal_id,
                signal_name="go",
                waitpoint_token=answer.waitpoint.waitpoint_token,
                idempotency_key=self.uuid(),
            )
        )
        self.say(fact="signal", id=mine["execution_id"], waitpoint=binding.waitpoint_id, signal=signal_id)


async def main(path: str, name: str, seed: int) -> None:
    """Work until the end of the world."""
    store = await SqliteStore.open(path)
    await store.apply(SeedSecret(kid="k1", secret_hex=SECRET))
    say(fact="ready", pid=os.getpid())
    async with asyncio.TaskGroup() as slots:
        for number in range(SLOTS):
            slots.create_task(Slot(store, name, seed * SLOTS + number).run())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
