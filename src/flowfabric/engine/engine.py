"""The engine of one process: timers, housekeeping, and a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from types import TracebackType
from typing import Final, Self

from flowfabric.engine.timers import Timers
from flowfabric.model.errors import FlowFabricError, StoreClosed
from flowfabric.storage.base import Upkeep

COLLECT_SECONDS: Final = 60.0
COLLECT_PAGE: Final = 1_000
REPAIR_SECONDS: Final = 3_600.0
REPAIR: Final = "repair"
"""The leader lease of the process that repairs; it is held until the next repair is due."""

log = logging.getLogger("flowfabric.engine")


class Engine:
    """Fires what is due: retries, timeouts, ends of leases and of retention; `async with Engine(store): …`.

    It runs beside a server, a worker or your own program. `app.worker()` and `ff server` have one already; of many on
    one store one at a time works. Without any, nothing expires and nothing is retried.
    """

    def __init__(
        self,
        store: Upkeep,
        *,
        collect_seconds: float = COLLECT_SECONDS,
        repair_seconds: float = REPAIR_SECONDS,
    ) -> None:
        self._store = store
        self.timers = Timers(store)
        self._collect_seconds = collect_seconds
        self._repair_seconds = repair_seconds
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [
            asyncio.create_task(self.timers.run(), name="flowfabric-timers"),
            asyncio.create_task(self._every(self._collect_seconds, self._collect), name="flowfabric-collect"),
            asyncio.create_task(self._every(self._repair_seconds, self._repair), name="flowfabric-repair"),
        ]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(FlowFabricError):
            await self.timers.stop()

    async def _collect(self) -> None:
        while await self._store.collect(COLLECT_PAGE) >= COLLECT_PAGE:
            pass

    async def _repair(self) -> None:
        """Repair, unless another process has done so in the meantime."""
        held_ms = int(self._repair_seconds * 900)
        if not await self._store.acquire_leader_lease(REPAIR, self.timers.holder, held_ms):
            return
        report = await self._store.repair()
        for sentence in report.wrong:
            log.error("%s: %s", "repaired" if report.fixed else "wrong, and not mended", sentence)

    async def _every(self, seconds: float, work: object) -> None:
        assert callable(work)
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except StoreClosed:
                return
            except FlowFabricError as error:
                log.warning("housekeeping pauses: %s", error)
