"""Order between steps and waits of one handler that run at the same time."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Iterator
from typing import Final

from flowfabric.worker.claimed_task import ClaimedTask
from flowfabric.worker.faults import HandlerSuspended, LeaseLost
from flowfabric.worker.steps.journal import STEPS_AROUND

TURNS: Final = 4
"""Turns of the event loop between the end of a step and its handler, when both meet in a task group."""


class SuspensionGate:
    """Delays giving back the lease until steps that run beside the wait are stored.

    Without the lease their results would be refused, and the steps would run again.
    """

    def __init__(self, task: ClaimedTask) -> None:
        self._task = task
        self._running = 0
        self._ended = False
        self._suspending: asyncio.Event | None = None
        """Exists while the lease is being given back; set when the store has decided."""

    def end(self) -> None:
        """Refuse every further step and wait: the handler has ended, and these belong to tasks it left behind."""
        self._ended = True

    async def before_step(self) -> None:
        """Wait for a suspension that is being decided; raise if the handler may begin nothing more."""
        if self._suspending is not None:
            await self._suspending.wait()
        self._check()

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Count a step as running."""
        self._running += 1
        outer = STEPS_AROUND.set((*STEPS_AROUND.get(), name))
        try:
            yield
        finally:
            STEPS_AROUND.reset(outer)
            self._running -= 1
            self._step_ended.set()

    @contextlib.asynccontextmanager
    async def suspension(self) -> AsyncIterator[None]:
        """Wait until no step runs beside the caller, and hold back new ones while the lease is given back."""
        while True:
            for _ in range(TURNS):  # steps may begin, and whoever waited for one may end the handler
                await asyncio.sleep(0)
            if self._suspending is not None:
                await self._suspending.wait()
            elif self._running > len(STEPS_AROUND.get()):
                self._step_ended.clear()
                await self._step_ended.wait()
            else:
                break
        self._check()
        self._suspending = asyncio.Event()
        try:
            yield
        finally:
            self._suspending.set()
            self._suspending = None

    @functools.cached_property
    def _step_ended(self) -> asyncio.Event:
        return asyncio.Event()

    def _check(self) -> None:
        if self._task.hold.loss is not None:
            raise LeaseLost(str(self._task.hold.loss))
        if self._task.consumed or self._ended:
            raise HandlerSuspended("the handler has ended, or waits: this belongs to what it left behind")
