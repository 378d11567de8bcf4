"""Measure submissions, claims and wake-ups of a store with executions that are removed afterwards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from flowfabric.cli.support.progress import ProgressLine
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

BENCH_LANE: Final = "ff-bench"
"""The lane and the namespace of all executions that are made here; their kind is new each time."""
RETENTION_MS: Final = 2_000
"""Ended executions are kept this long, so that their removal does not disturb the measurement."""
POLICY: Final = json.dumps({"stream_policy": {"retention_ttl_ms": RETENTION_MS}}).encode()
BATCH_SIZE: Final = 200
WAKE_UPS: Final = 50
SETTLE_SECONDS: Final = 0.02
"""The time that a waiting claim gets to subscribe."""
WAIT_MS: Final = 5_000


class Measurement(Struct, frozen=True):
    """The speed of one operation; its rate is 0 if the calls were made one at a time."""

    name: str
    count: int
    per_second: float
    p50_ms: float
    p99_ms: float


class Benchmark:
    """Measures one store."""

    def __init__(self, store: Commands, tasks: int, seconds: float, concurrency: int, size: int) -> None:
        self._store = store
        self._tasks = tasks
        self._concurrency = concurrency
        self._payload = b"x" * size
        self._clock = asyncio.get_running_loop().time
        self._started_at = self._clock()
        self._seconds = seconds
        self._kind = f"{BENCH_LANE}-{new_uuid()[:8]}"
        self._worker = f"{self._kind}-worker"
        self._open: set[str] = set()
        self._ended: list[str] = []

    def _has_passed(self, share: float) -> bool:
        """Return whether this share of the time has passed."""
        return self._clock() - self._started_at >= self._seconds * share

    async def run(self, progress: ProgressLine) -> list[Measurement]:
        """Measure submissions, claims with completions, and wake-ups; each gets its share of the time."""
        progress.begin("submitting", self._tasks)
        submitted = await self._measure("submit", self._submit, self._tasks, 0.4, progress)
        progress.begin("claiming and completing", submitted.count)
        drained = await self._measure(
            "claim + complete", self._claim_and_complete, submitted.count, 0.8, progress
        )
        progress.begin("waking", WAKE_UPS)
        return [submitted, drained, await self._measure_wake_ups(progress)]

    async def _measure(
        self, name: str, work: Callable[[], Awaitable[bool]], count: int, share: float, progress: ProgressLine
    ) -> Measurement:
        """Call `work` `count` times, with the given concurrency, and measure each call."""
        left = count
        durations: list[float] = []

        async def repeat() -> None:
            nonlocal left
            while left > 0 and not self._has_passed(share):
                left -= 1
                began = self._clock()
                if not await work():
                    return
                durations.append(self._clock() - began)
                progress.done += 1

        began = self._clock()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._concurrency):
                    group.create_task(repeat())
        except ExceptionGroup as several:
            raise several.exceptions[0] from several
        return summarize(name, durations, self._clock() - began)

    async def _submit(self) -> bool:
        execution_id = spread(new_uuid(), self._store.partitions)
        self._open.add(execution_id)
        await self._store.apply(
            CreateExecution(
                execution_id=execution_id,
                execution_kind=self._kind,
                lane_id=BENCH_LANE,
                namespace=BENCH_LANE,
                input_payload=self._payload,
                payload_encoding="bytes",
                policy=POLICY,
                actor=BENCH_LANE,
            )
        )
        return True

    def _claim(self) -> Claim:
        return Claim(
            worker_id=BENCH_LANE,
            worker_instance_id=self._worker,
            lanes=(BENCH_LANE,),
            kinds=(self._kind,),
            mint=new_uuid(),
        )

    async def _claim_and_complete(self) -> bool:
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

    async def _measure_wake_ups(self, progress: ProgressLine) -> Measurement:
        """Measure the time from a submission to the return of a claim that waited for it."""
        durations: list[float] = []
        while len(durations) < WAKE_UPS and not self._has_passed(1.0) and not self._open:
            waiting = asyncio.create_task(claim_when_ready(self._store, self._claim(), WAIT_MS))
            try:
                await asyncio.sleep(SETTLE_SECONDS)
                began = self._clock()
                await self._submit()
                claimed = await waiting
            finally:
                waiting.cancel()
            durations.append(self._clock() - began)
            for task in claimed.tasks:
                await self._complete(task)
            progress.done += 1
        return summarize("wake-up", durations)

    async def clean_up(self, progress: ProgressLine, *, purge: bool) -> None:
        """Cancel open executions, and `purge` all unless the store is a server, which purges itself."""
        progress.begin("cleaning up")
        cancels = [
            Cancel(execution_id=each, source=OPERATOR_OVERRIDE, actor=BENCH_LANE) for each in self._open
        ]
        await self._apply_all([*cancels, MarkWorkerDead(worker_instance_id=self._worker)])
        if purge:
            await asyncio.sleep(RETENTION_MS / 1_000)
            await self._apply_all([Purge(execution_id=each) for each in (*self._open, *self._ended)])

    async def _apply_all(self, commands: Sequence[Command[Any]]) -> None:
        for start in range(0, len(commands), BATCH_SIZE):
            await self._store.apply_many(commands[start : start + BATCH_SIZE])


def summarize(name: str, durations: list[float], seconds: float = 0.0) -> Measurement:
    """Return the percentiles of durations in seconds, and their rate."""
    ordered = sorted(durations) or [0.0]
    return Measurement(
        name=name,
        count=len(durations),
        per_second=round(len(durations) / seconds, 1) if seconds else 0.0,
        p50_ms=round(ordered[len(ordered) // 2] * 1_000, 2),
        p99_ms=round(ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] * 1_000, 2),
    )
