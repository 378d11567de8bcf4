"""One worker process of the demonstration: it claims, renews, runs and ends tasks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from flowfabric.engine import claim_when_ready
from flowfabric.model.conditions import single
from flowfabric.model.contracts.lease import Claim, Complete, Fail, Renew, Task
from flowfabric.model.contracts.streams import AppendFrames, FrameInput, PutStep
from flowfabric.model.contracts.waiting import Binding, Suspend
from flowfabric.model.errors import OwnershipLost
from flowfabric.model.limits import MIN_LEASE_TTL_MS
from flowfabric.storage import open_store
from flowfabric.storage.base import Commands

LANE: Final = "demo"
LEASE_MS: Final = MIN_LEASE_TTL_MS
"""As short as a lease may be, so that nobody has to wait long for a dead worker."""
WAIT_MS: Final = 10_000
APPROVAL: Final = "approval"


class Job:
    """A claimed task, and what a handler does with it."""

    def __init__(self, store: Commands, task: Task) -> None:
        self.task = task
        self._store = store
        self._done = {step.name: json.loads(step.result) for step in task.steps}

    async def say(self, text: str) -> None:
        """Append a frame to the stream of this attempt."""
        frame = FrameInput(payload=text.encode())
        await self._store.apply(
            AppendFrames(execution_id=self.task.execution_id, fence=self.task.fence, frames=(frame,))
        )

    async def step(self, name: str, seconds: float, result: str) -> None:
        """Work for a while, once: an attempt that finds the result stored goes on at once."""
        if name in self._done:
            await self.say(f"step {name} is done already, passed at once")
            return
        await asyncio.sleep(seconds)
        await self._store.apply(
            PutStep(
                execution_id=self.task.execution_id,
                fence=self.task.fence,
                step_name=name,
                result=json.dumps(result).encode(),
            )
        )

    async def complete(self, result: str) -> None:
        """End well."""
        await self._store.apply(
            Complete(
                execution_id=self.task.execution_id,
                fence=self.task.fence,
                result=json.dumps(result).encode(),
                result_encoding="json",
            )
        )

    async def fail(self, reason: str) -> None:
        """End badly; the policy decides whether there is another attempt."""
        await self._store.apply(
            Fail(
                execution_id=self.task.execution_id,
                fence=self.task.fence,
                reason=reason,
                category="transient",
            )
        )

    async def suspend(self) -> None:
        """Give the lease back until somebody approves or rejects."""
        await self._store.apply(
            Suspend(
                execution_id=self.task.execution_id,
                fence=self.task.fence,
                suspension_id=str(uuid.uuid4()),
                waitpoints=(Binding(str(uuid.uuid4()), APPROVAL),),
                condition=single(APPROVAL),
                reason_code="waiting_for_approval",
            )
        )

    @asynccontextmanager
    async def renewed(self) -> AsyncIterator[None]:
        """Keep the lease for as long as the work goes on."""

        async def renew() -> None:
            while True:
                await asyncio.sleep(LEASE_MS / 3000)
                await self._store.apply(
                    Renew(execution_id=self.task.execution_id, fence=self.task.fence, lease_ttl_ms=LEASE_MS)
                )

        renewing = asyncio.create_task(renew())
        try:
            yield
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)


async def _thumbnail(job: Job) -> None:
    await job.step("resize", 0.4, "320x240")
    await job.complete("320x240")


async def _report(job: Job) -> None:
    await job.say("collecting the numbers")
    await job.step("collect", 0.6, "three tables")
    for part in ("opening", "middle", "end"):
        await job.say(f"writing the {part}")
        await asyncio.sleep(0.5)
    await job.step("write", 0.1, "12 pages")
    await job.complete("12 pages")


async def _upload(job: Job) -> None:
    await asyncio.sleep(0.2)
    if job.task.attempt_index == 0:
        await job.fail("connection reset")
    else:
        await job.complete("stored")


async def _invoice(job: Job) -> None:
    if job.task.resume is None:
        await job.step("draft", 0.3, "1 200 euro")
        await job.suspend()
        return
    (signal,) = job.task.resume_signals
    await job.complete(f"{signal.signal_name} by {signal.source_identity}")


Handler = Callable[[Job], Awaitable[None]]
HANDLERS: Final[dict[str, Handler]] = {
    "thumbnail": _thumbnail,
    "report": _report,
    "upload": _upload,
    "invoice": _invoice,
}


async def work(path: str, name: str) -> int:
    """Take tasks until the parent closes our standard input, or dies."""
    working = asyncio.create_task(_work(path, name))
    loop = asyncio.get_running_loop()

    def watch() -> None:
        while os.read(0, 1024):
            pass
        with contextlib.suppress(RuntimeError):  # the loop has ended by itself
            loop.call_soon_threadsafe(working.cancel)

    threading.Thread(target=watch, daemon=True).start()
    with contextlib.suppress(asyncio.CancelledError):
        await working
    return 0


async def _work(path: str, name: str) -> None:
    store = await open_store(path)
    try:
        while True:
            claim = Claim(
                worker_id=name,
                worker_instance_id=f"{name}-{os.getpid()}",
                lanes=(LANE,),
                mint=str(uuid.uuid4()),
                kinds=tuple(HANDLERS),
                lease_ttl_ms=LEASE_MS,
            )
            for task in (await claim_when_ready(store, claim, WAIT_MS)).tasks:
                await _run(Job(store, task))
    finally:
        await store.close()


async def _run(job: Job) -> None:
    with contextlib.suppress(OwnershipLost):  # somebody else has it now: nothing more to do here
        async with job.renewed():
            await HANDLERS[job.task.execution_kind](job)
