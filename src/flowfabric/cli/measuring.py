"""What `ff bench` does to a store: submits, takes and ends small work of its own, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from flowfabric.cli.progress import Progress
from flowfabric.engine import claim_when_ready
from flowfabric.model.command import OPERATOR_OVERRIDE, Command
from flowfabric.model.ids import spread
from flowfabric.model.operations.claim import Claim, Task
from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.operations.finish import Cancel, Complete
from flowfabric.model.operations.timer import Purge
from flowfabric.model.operations.worker import MarkWorkerDead
from flowfabric.storage.base import Commands
from flowfabric.storage.minting import new_uuid

HOME: Final = "ff-bench"
"""Lane and namespace of everything that is made here; the kind is another one each time."""
KEPT_MS: Final = 2_000
"""So long ended work is kept: longer than it takes to measure, or its removal would be measured, too."""
POLICY: Final = json.dumps({"stream_policy": {"retention_ttl_ms": KEPT_MS}}).encode()
GROUP: Final = 200
WAKE_UPS: Final = 50
SETTLE_SECONDS: Final = 0.02
"""A claim that waits has begun to listen by then."""
WAIT_MS: Final = 5_000


class Measure(Struct, frozen=True):
    """How one kind of operation went; a rate of 0: they were done one at a time."""

    name: str
    count: int
    per_second: float
    p50_ms: float
    p99_ms: float


class Bench:
    """One measurement."""

    def __init__(self, store: Commands, tasks: int, seconds: float, concurrency: int, size: int) -> None:
        self._store = store
        self._tasks = tasks
        self._concurrency = concurrency
        self._payload = b"x" * size
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self._seconds = seconds
        self._kind = f"{HOME}-{new_uuid()[:8]}"
        self._worker = f"{self._kind}-worker"
        self._open: set[str] = set()
        self._ended: list[str] = []

    def _over(self, share: float) -> bool:
        """Whether so much of the time has passed."""
        return self._clock() - self._began >= self._seconds * share

    async def run(self, progress: Progress) -> list[Measure]:
        """Measure everything; each part has its share of the time."""
        progress.begin("submitting", self._tasks)
        submitted = await self._together("submit", self._submit, self._tasks, 0.4, progress)
        progress.begin("taking and ending", submitted.count)
        drained = await self._together("claim + complete", self._drain, submitted.count, 0.8, progress)
        progress.begin("waking", WAKE_UPS)
        return [submitted, drained, await self._wake_ups(progress)]

    async def _together(
        self, name: str, work: Callable[[], Awaitable[bool]], count: int, share: float, progress: Progress
    ) -> Measure:
        """Do something so often, many at once, and time each."""
        left = count
        took: list[float] = []

        async def some() -> None:
            nonlocal left
            while left > 0 and not self._over(share):
                left -= 1
                began = self._clock()
                if not await work():
                    return
                took.append(self._clock() - began)
                progress.done += 1

        began = self._clock()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._concurrency):
                    group.create_task(some())
        except ExceptionGroup as several:
            raise several.exceptions[0] from several
        return measured(name, took, self._clock() - began)

    async def _submit(self) -> bool:
        execution_id = spread(new_uuid(), self._store.partitions)
        self._open.add(execution_id)
        await self._store.apply(
            CreateExecution(
                execution_id=execution_id, execution_kind=self._kind, lane_id=HOME, namespace=HOME,
                input_payload=self._payload, payload_encoding="bytes", policy=POLICY, actor=HOME,
            )
        )  # fmt: skip
        return True

    def _claim(self) -> Claim:
        return Claim(
            worker_id=HOME,
            worker_instance_id=self._worker,
            lanes=(HOME,),
            kinds=(self._kind,),
            mint=new_uuid(),
        )

    async def _drain(self) -> bool:
        tasks = (await self._store.apply(self._claim())).tasks
        for task in tasks:
            await self._complete(task)
        return bool(tasks)

    async def _complete(self, task: Task) -> None:
        await self._store.apply(
            Complete(execution_id=task.execution_id, fence=task.fence, result=b"null", result_encoding="json")
        )
        self._open.discard(task.execution_id)
        self._ended.append(task.execution_id)

    async def _wake_ups(self, progress: Progress) -> Measure:
        """Time from a submission to the claim that waited for it."""
        took: list[float] = []
        while len(took) < WAKE_UPS and not self._over(1.0) and not self._open:
            waiting = asyncio.create_task(claim_when_ready(self._store, self._claim(), WAIT_MS))
            try:
                await asyncio.sleep(SETTLE_SECONDS)
                began = self._clock()
                await self._submit()
                claimed = await waiting
            finally:
                waiting.cancel()
            took.append(self._clock() - began)
            for task in claimed.tasks:
                await self._complete(task)
            progress.done += 1
        return measured("wake-up", took)

    async def clean_up(self, progress: Progress, *, remove: bool) -> None:
        """End what is open; `remove` what has ended, which a server does itself."""
        progress.begin("cleaning up")
        cancels = [Cancel(execution_id=each, source=OPERATOR_OVERRIDE, actor=HOME) for each in self._open]
        await self._each([*cancels, MarkWorkerDead(worker_instance_id=self._worker)])
        if remove:
            await asyncio.sleep(KEPT_MS / 1_000)
            await self._each([Purge(execution_id=each) for each in (*self._open, *self._ended)])

    async def _each(self, commands: Sequence[Command[Any]]) -> None:
        for start in range(0, len(commands), GROUP):
            await self._store.apply_many(commands[start : start + GROUP])


def measured(name: str, took: list[float], seconds: float = 0.0) -> Measure:
    """Sum up how long each took, in seconds."""
    ordered = sorted(took) or [0.0]
    return Measure(
        name=name,
        count=len(took),
        per_second=round(len(took) / seconds, 1) if seconds else 0.0,
        p50_ms=round(ordered[len(ordered) // 2] * 1_000, 2),
        p99_ms=round(ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] * 1_000, 2),
    )
