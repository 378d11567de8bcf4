"""Driving a lab: fire due timers and offer work to workers until nothing more happens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from flowfabric.engine import Timers
from flowfabric.model.operations.timer import ReadDue
from flowfabric.storage.base import Upkeep
from flowfabric.testing.clock import Clock
from flowfabric.testing.lab_worker import LabWorker
from flowfabric.testing.observed_store import ChangeSignal


class StillRunning(AssertionError):
    """Handlers do not return, so the lab does not settle. The message names them, and says what to do."""


class LabDriver:
    """Drives a store and its workers. The clock stands still except in `travel` and after a crash."""

    def __init__(
        self,
        store: Upkeep,
        clock: Clock,
        changes: ChangeSignal,
        start_worker: Callable[[], Awaitable[LabWorker]],
        patience: float,
    ) -> None:
        self._store = store
        self._clock = clock
        self._changes = changes
        self._start_worker = start_worker
        self._patience = patience
        self._timers = Timers(store)
        self._lock = asyncio.Lock()
        self._pump: asyncio.Task[None] | None = None
        self._woken: set[str] = set()
        """Executions with a step whose timeout or backoff has just ended."""
        self.workers: list[LabWorker] = []

    @property
    def alive(self) -> list[LabWorker]:
        """The workers that have not crashed."""
        return [worker for worker in self.workers if not worker.store.has_crashed]

    async def start(self) -> None:
        """Start the first worker, and drive the lab in the background, so that callers can await results."""
        self.workers.append(await self._start_worker())
        self._pump = asyncio.create_task(self._run(), name="flowfabric-lab")

    async def stop(self) -> None:
        """Stop everything; raise an error of the background task."""
        assert self._pump is not None
        self._pump.cancel()
        (outcome,) = await asyncio.gather(self._pump, return_exceptions=True)
        for worker in reversed(self.workers):
            await worker.stop()
        if isinstance(outcome, Exception):
            raise outcome

    async def _run(self) -> None:
        while True:
            count = self._changes.count
            if not await self._drive_once():
                await self._changes.after(count)

    # Settling.

    async def settle(self, *, besides: frozenset[str] = frozenset()) -> None:
        """Wait until nothing runs and nothing can; the runs in `besides` may still run."""
        try:
            async with asyncio.timeout(self._patience):
                await self._settle(besides)
        except TimeoutError:
            raise StillRunning(self._complaint(besides)) from None

    async def begun(self, execution_id: str) -> None:
        """Wait until the handler of a run is running."""
        try:
            async with asyncio.timeout(self._patience):
                while not any(execution_id in worker.handlers.kinds for worker in self.alive):
                    self._check()
                    await self._changes.after(self._changes.count)
        except TimeoutError:
            raise StillRunning(
                f"after {self._patience:g} s of real time no handler works on {execution_id}: "
                "it may have ended already, or wait for something; `await run.explain()` says what for"
            ) from None

    def _check(self) -> None:
        """Raise the error that ended the background task, if one did."""
        assert self._pump is not None
        if self._pump.done():
            self._pump.result()

    async def _settle(self, besides: frozenset[str]) -> None:
        while True:
            self._check()
            count = self._changes.count
            if await self._drive_once():
                continue
            busy = await self._busy() - besides
            if not busy and self._changes.count == count:
                return
            await self._changes.after(count)

    async def _drive_once(self) -> bool:
        """Fire due timers and offer work once; return whether anything happened."""
        async with self._lock:
            if len(self.alive) < len(self.workers) and await self._replace_crashed():
                return True
            fired = await self._timers.fire_due()
            taken = 0
            for worker in self.alive:
                taken += await worker.store.offer()
                if set(worker.handlers.kinds) - await worker.held():
                    await worker.renew()  # a lease was revoked, which a worker notices when it renews
            return bool(fired or taken)

    async def _busy(self) -> set[str]:
        """Return the runs that live workers hold or run."""
        busy: set[str] = set()
        for worker in self.alive:
            if not worker.store.is_idle and not worker.handlers.kinds:
                busy.add("a worker that comes back for more")
            busy |= {*worker.handlers.kinds, *await worker.held()} - worker.store.step_timers.backing_off
        return busy

    def _complaint(self, besides: frozenset[str]) -> str:
        running = [
            f"{kind} of {execution_id}"
            for worker in self.alive
            for execution_id, kind in worker.handlers.kinds.items()
            if execution_id not in besides
        ]
        return (
            f"after {self._patience:g} s of real time the lab has not come to rest; what runs: "
            f"{', '.join(running) or 'nothing, but a lease is held'}. A handler must wait with ctx.sleep or "
            "ctx.wait_for_signal, not with asyncio.sleep or time.sleep; one that is slow with reason needs "
            "Lab(app, patience=…). To look at one that runs, do not settle: move the clock with lab.clock.advance."
        )

    # Crashes.

    async def _replace_crashed(self) -> bool:
        """Replace crashed workers, and move the clock until their leases expire; return whether anything changed."""
        left = False
        for worker in self.workers:
            if worker.store.has_crashed:
                await worker.clean_up()
                left = left or bool(await worker.held())
        changed = False
        if not self.alive:
            self.workers.append(await self._start_worker())
            changed = True
        if left:
            changed = await self._hop(await self._next()) or changed
        return changed

    # Travelling.

    async def travel(self, target: int) -> None:
        """Move the clock, and stop at whatever falls due on the way."""
        running = frozenset(
            each
            for worker in self.alive
            for each in {*worker.handlers.kinds} - worker.store.step_timers.backing_off
        )
        self._woken.clear()
        while True:
            await self.settle(besides=running)
            due = await self._next()
            async with self._lock:
                await self._hop(min(due, target) if due else target)
            await self._resumed()
            if self._clock.ms >= target:
                break
        await self.settle(besides=running)
        await self._store.collect()

    async def _next(self) -> int:
        stored = (await self._store.read(ReadDue(before=self._clock.ms, limit=1))).next_due_at
        return min(
            filter(None, (stored, *(worker.store.step_timers.next_at for worker in self.alive))), default=0
        )

    async def _resumed(self) -> None:
        """Wait until handlers have ended whose steps had a timeout or a backoff until now, or wait for the next one."""
        woken, self._woken = self._woken, set()
        try:
            async with asyncio.timeout(self._patience):
                while any(
                    woken & {*worker.handlers.kinds} - worker.store.step_timers.executions
                    for worker in self.alive
                ):
                    await self._changes.after(self._changes.count)
        except TimeoutError:
            raise StillRunning(self._complaint(frozenset())) from None

    async def _hop(self, to: int) -> bool:
        """Move on to a time; living workers renew their leases right before it, and notice right after what is lost."""
        if to <= self._clock.ms:
            return False
        if any([await worker.held() for worker in self.alive]):
            self._clock.ms = to - 1
            for worker in self.alive:
                await worker.renew()
        self._clock.ms = to
        for worker in self.alive:
            self._woken |= worker.store.step_timers.wake(to)
        await self._timers.fire_due()
        for worker in self.alive:
            if worker.handlers.kinds:
                await worker.renew()
        return True
