"""How a lab goes on: rounds of firing what is due and offering what can be run, until nothing more happens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from flowfabric.engine import Timers
from flowfabric.model.contracts.reads import ReadDue
from flowfabric.storage.base import Upkeep
from flowfabric.testing.clock import Clock
from flowfabric.testing.lab_worker import LabWorker
from flowfabric.testing.worker_store import ChangeSignal


class StillRunning(AssertionError):
    """Handlers do not return, so the lab does not come to rest; the text names them, and says what to do."""


class LabDriver:
    """Drives one store and the workers on it. Time stands still, except while it travels and after a crash."""

    def __init__(
        self,
        store: Upkeep,
        clock: Clock,
        pulse: ChangeSignal,
        hire: Callable[[], Awaitable[LabWorker]],
        patience: float,
    ) -> None:
        self._store = store
        self._clock = clock
        self._pulse = pulse
        self._hire = hire
        self._patience = patience
        self._timers = Timers(store)
        self._lock = asyncio.Lock()
        self._pump: asyncio.Task[None] | None = None
        self._woken: set[str] = set()
        """Executions with a step whose timeout or backoff has just ended."""
        self.hands: list[LabWorker] = []

    @property
    def alive(self) -> list[LabWorker]:
        """The workers that live."""
        return [hand for hand in self.hands if not hand.life.dead]

    async def start(self) -> None:
        """Hire the first worker, and go on by itself from now on: whoever awaits a result gets it."""
        self.hands.append(await self._hire())
        self._pump = asyncio.create_task(self._run(), name="flowfabric-lab")

    async def stop(self) -> None:
        """End everything; raise what went wrong in between."""
        assert self._pump is not None
        self._pump.cancel()
        (outcome,) = await asyncio.gather(self._pump, return_exceptions=True)
        for hand in reversed(self.hands):
            await hand.stop()
        if isinstance(outcome, Exception):
            raise outcome

    async def _run(self) -> None:
        while True:
            count = self._pulse.count
            if not await self._round():
                await self._pulse.after(count)

    # Coming to rest.

    async def settle(self, *, besides: frozenset[str] = frozenset()) -> None:
        """Go on until nothing runs and nothing can; some runs need not have ended."""
        try:
            async with asyncio.timeout(self._patience):
                await self._settle(besides)
        except TimeoutError:
            raise StillRunning(self._complaint(besides)) from None

    async def begun(self, execution_id: str) -> None:
        """Go on until a handler works on a run."""
        try:
            async with asyncio.timeout(self._patience):
                while not any(execution_id in hand.seen.running for hand in self.alive):
                    self._check()
                    await self._pulse.after(self._pulse.count)
        except TimeoutError:
            raise StillRunning(
                f"after {self._patience:g} s of real time no handler works on {execution_id}: "
                "it may have ended already, or wait for something; `await run.explain()` says what for"
            ) from None

    def _check(self) -> None:
        """Raise what ended the rounds that go by themselves."""
        assert self._pump is not None
        if self._pump.done():
            self._pump.result()

    async def _settle(self, besides: frozenset[str]) -> None:
        while True:
            self._check()
            count = self._pulse.count
            if await self._round():
                continue
            busy = await self._busy() - besides
            if not busy and self._pulse.count == count:
                return
            await self._pulse.after(count)

    async def _round(self) -> bool:
        """Do what can be done now; say whether anything was."""
        async with self._lock:
            if len(self.alive) < len(self.hands) and await self._outlive():
                return True
            fired = await self._timers.fire_due()
            taken = 0
            for hand in self.alive:
                taken += await hand.life.offer()
                if set(hand.seen.running) - await hand.held():
                    await (
                        hand.renew()
                    )  # somebody has taken the lease away: a worker notices that when it renews
            return bool(fired or taken)

    async def _busy(self) -> set[str]:
        """Name the runs that living workers have to do with."""
        busy: set[str] = set()
        for hand in self.alive:
            if not hand.life.parked and not hand.seen.running:
                busy.add("a worker that comes back for more")
            busy |= {*hand.seen.running, *await hand.held()} - hand.life.agenda.backing_off
        return busy

    def _complaint(self, besides: frozenset[str]) -> str:
        running = [
            f"{kind} of {execution_id}"
            for hand in self.alive
            for execution_id, kind in hand.seen.running.items()
            if execution_id not in besides
        ]
        return (
            f"after {self._patience:g} s of real time the lab has not come to rest; what runs: "
            f"{', '.join(running) or 'nothing, but a lease is held'}. A handler must wait with ctx.sleep or "
            "ctx.wait_for_signal, not with asyncio.sleep or time.sleep; one that is slow with reason needs "
            "Lab(app, patience=…). To look at one that runs, do not settle: move the clock with lab.clock.advance."
        )

    # Crashes.

    async def _outlive(self) -> bool:
        """Bury the dead, hire somebody else, and wait until their leases have run out."""
        left = False
        for hand in self.hands:
            if hand.life.dead:
                await hand.bury()
                left = left or bool(await hand.held())
        changed = False
        if not self.alive:
            self.hands.append(await self._hire())
            changed = True
        if left:
            changed = await self._hop(await self._next()) or changed
        return changed

    # Travelling.

    async def travel(self, target: int) -> None:
        """Move the clock, and stop at whatever falls due on the way."""
        running = frozenset(
            each for hand in self.alive for each in {*hand.seen.running} - hand.life.agenda.backing_off
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
        return min(filter(None, (stored, *(hand.life.agenda.next_at for hand in self.alive))), default=0)

    async def _resumed(self) -> None:
        """Wait until handlers have ended whose steps had a timeout or a backoff until now, or wait for the next one."""
        woken, self._woken = self._woken, set()
        try:
            async with asyncio.timeout(self._patience):
                while any(woken & {*hand.seen.running} - hand.life.agenda.executions for hand in self.alive):
                    await self._pulse.after(self._pulse.count)
        except TimeoutError:
            raise StillRunning(self._complaint(frozenset())) from None

    async def _hop(self, to: int) -> bool:
        """Move on to a time; living workers renew their leases right before it, and notice right after what is lost."""
        if to <= self._clock.ms:
            return False
        if any([await hand.held() for hand in self.alive]):
            self._clock.ms = to - 1
            for hand in self.alive:
                await hand.renew()
        self._clock.ms = to
        for hand in self.alive:
            self._woken |= hand.life.agenda.wake(to)
        await self._timers.fire_due()
        for hand in self.alive:
            if hand.seen.running:
                await hand.renew()
        return True
