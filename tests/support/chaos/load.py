"""Clients that go on whatever becomes of their store, and know in the end what they were promised.

An answer that was lost is found out: a repeat of most commands is recognised, and what became of the others is read.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from flowfabric.engine import Engine
from flowfabric.engine.waiting import claim_when_ready
from flowfabric.model.command import Command, Question
from flowfabric.model.errors import FlowFabricError, Infrastructure
from flowfabric.model.operations.access_secret import SeedSecret
from flowfabric.model.operations.claim import Claim, Task
from flowfabric.model.operations.finish import Complete
from flowfabric.model.operations.lane import ListLanes
from flowfabric.model.operations.lease import Release, Released
from flowfabric.model.operations.read import ReadHistory
from flowfabric.model.operations.signal import DeliverSignal
from flowfabric.model.operations.stream import Appended, AppendFrames, ReadStream
from flowfabric.model.state import Public
from flowfabric.storage import open_unseeded
from flowfabric.storage.base import Upkeep
from support.chaos.checker import DumpChecker, Fact
from support.chaos.stream import SECRET, R, Slot

SLOTS = 4
PAUSE_SECONDS = 0.02
LOOK_MS = 100
OVER = frozenset({Public.COMPLETED, Public.FAILED, Public.CANCELLED, Public.EXPIRED})
LOST = frozenset(
    {"lease_expired", "stale_lease", "execution_not_active", "stale_owner_cannot_append", "stream_closed"}
)
"""Refusals that somebody meets whose lease ran out while nobody answered."""


def is_trouble(error: FlowFabricError) -> bool:
    """Whether the store failed, and nobody said no."""
    return isinstance(error, Infrastructure) and error.retryable


class Persistent(Slot):
    """Asks again until it is answered."""

    lease_ms = 2_000

    def __init__(self, load: Load, store: Upkeep, name: str, seed: int) -> None:
        super().__init__(store, name, seed)
        self.load = load
        if load.lossy:  # a signal may be lost although it was acknowledged
            self.patience = {  # type: ignore[misc]
                "timeout_ms": 1_500,
                "timeout_behavior": "auto_resume_with_timeout_signal",
            }

    def say(self, **fact: Any) -> None:
        self.load.facts.append(fact)
        self.load.heard.set()

    def forgives(self, error: FlowFabricError) -> bool:
        return self.load.lossy or error.code in LOST

    async def ask(self, command: Command[R]) -> R:
        doubt = False
        while True:
            try:
                return await self.store.apply(command)
            except FlowFabricError as error:
                if is_trouble(error):
                    doubt = True
                    self.load.troubles[error.code] += 1
                    self.load.heard.set()
                    await asyncio.sleep(PAUSE_SECONDS)
                elif not doubt:
                    raise
                known = await self._become(command, error) if doubt else None
                if known is not None:
                    return cast("R", known)
                if not is_trouble(error):
                    raise

    async def read(self, question: Question[R]) -> R:
        while True:
            try:
                return await self.store.read(question)
            except FlowFabricError as error:
                if not is_trouble(error):
                    raise
            await asyncio.sleep(PAUSE_SECONDS)

    async def _become(self, command: Command[Any], error: FlowFabricError) -> object:
        """Find out what became of a command whose repeat nobody would recognise."""
        if isinstance(command, DeliverSignal) and error.code in {"target_not_signalable", "waitpoint_closed"}:
            return error  # nobody else has its token: what ended the wait was this signal
        if isinstance(command, AppendFrames):
            assert command.fence is not None
            index = self.load.attempts[command.fence.attempt_id]
            page = await self.read(
                ReadStream(execution_id=command.execution_id, attempt_index=index, count=1_000)
            )
            wanted = [frame.payload for frame in command.frames]
            found = [view for view in page.frames if view.frame.payload in wanted]
            return [Appended(view.entry_id, 0) for view in found] or None
        if isinstance(command, Release):
            assert command.fence is not None
            told = await self.read(ReadHistory(execution_id=command.execution_id, limit=1_000))
            mine = ("released", command.fence.lease_epoch)
            return Released() if mine in {(line.event, line.lease_epoch) for line in told.events} else None
        return None

    async def claim(self) -> tuple[Task, ...]:
        tasks = await super().claim()
        self.load.attempts.update({task.fence.attempt_id: task.attempt_index for task in tasks})
        return tasks

    async def finish(self) -> None:
        """Complete what there is until nothing is left."""
        while await self._unfinished():
            try:
                tasks = (await claim_when_ready(self.store, self._claim(), LOOK_MS)).tasks
            except FlowFabricError as error:
                if not is_trouble(error):
                    raise
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            for task in tasks:
                about = {"id": task.execution_id, "attempt": task.attempt_index}
                try:
                    await self.ask(Complete(execution_id=task.execution_id, fence=task.fence, result=b"end"))
                except FlowFabricError as error:
                    if not self.forgives(error):
                        raise
                else:
                    self.say(fact="complete", **about, epoch=task.fence.lease_epoch, result=b"end".hex())

    def _claim(self) -> Claim:
        return Claim(
            worker_id="w",
            worker_instance_id=self.name,
            lanes=("default",),
            mint=self.uuid(),
            max_tasks=20,
            lease_ttl_ms=self.lease_ms,
        )

    async def _unfinished(self) -> int:
        lanes = await self.read(ListLanes())
        return sum(count for lane in lanes for state, count in lane.counts if state not in OVER)


class Load:
    """Several clients at once, each with connections of its own."""

    def __init__(self, stores: Sequence[Upkeep], *, seed: int, lossy: bool) -> None:
        self.stores = stores
        self.lossy = lossy
        self.facts: list[Fact] = []
        self.attempts: dict[str, int] = {}
        self.troubles: Counter[str] = Counter()
        """What clients met and overcame, by code: a repeat that was met by the same counts again."""
        self.heard = asyncio.Event()
        self._stopped = False
        self.slots = [
            Persistent(self, store, f"client-{at}-{number}", seed * 1_000 + at * SLOTS + number)
            for at, store in enumerate(stores)
            for number in range(SLOTS)
        ]
        self._tasks = [asyncio.create_task(self._run(slot)) for slot in self.slots]

    async def _run(self, slot: Persistent) -> None:
        while not self._stopped:
            await slot.turn()

    async def more(self, count: int = 150) -> None:
        """Wait until so much more was acknowledged."""
        goal = len(self.facts) + count
        while len(self.facts) < goal:
            self._raise_early()
            self.heard.clear()
            async with asyncio.timeout(30):
                await self.heard.wait()

    async def met(self, code: str, count: int = 4) -> None:
        """Wait until clients have met an error so many times more."""
        goal = self.troubles[code] + count
        while self.troubles[code] < goal:
            self._raise_early()
            self.heard.clear()
            async with asyncio.timeout(30):
                await self.heard.wait()

    def _raise_early(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()

    async def settle(self) -> list[Fact]:
        """Submit nothing more and end everything: whatever is stuck, the test's time runs out."""
        self._stopped = True
        await asyncio.gather(*self._tasks)
        await asyncio.gather(*(slot.finish() for slot in self.slots[::SLOTS]))
        return self.facts

    async def stop(self) -> None:
        """Leave everything as it is."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def under_load(
    url: str, *, clients: int = 2, seed: int = 1, lossy: bool = False, **options: Any
) -> AsyncIterator[Load]:
    """Load on any store, with an engine beside it."""
    stores = [await open_unseeded(url, **options) for _ in range(clients + 1)]
    await stores[0].apply(SeedSecret(kid="k1", secret_hex=SECRET))
    async with Engine(stores[-1]):
        load = Load(stores[:-1], seed=seed, lossy=lossy)
        try:
            yield load
        finally:
            await load.stop()
    for store in stores:
        await store.close()


async def sound(url: str, facts: Sequence[Fact]) -> DumpChecker:
    """Look at a store from outside, and ask it whether its indexes fit."""
    store = await open_unseeded(url)
    try:
        checker = DumpChecker(await store.dump())
        checker.check(facts)
        assert (await store.repair(fix=False)).wrong == ()
    finally:
        await store.close()
    return checker
