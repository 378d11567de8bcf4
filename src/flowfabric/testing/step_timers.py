"""Backoffs and timeouts of steps by the clock of a lab."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from flowfabric.worker.steps.policy import StepTimer


@dataclass(eq=False)
class StepWait:
    """A step that waits for a time."""

    at: int
    execution_id: str
    is_backoff: bool
    over: asyncio.Event = field(default_factory=asyncio.Event)


class StepTimers:
    """The times for which the steps of one worker wait; `changed` is called when one is added."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._waiting: list[StepWait] = []

    @property
    def next_at(self) -> int:
        """The earliest time; 0 if there is none."""
        return min((due.at for due in self._waiting), default=0)

    @property
    def executions(self) -> frozenset[str]:
        """The executions with a waiting step."""
        return frozenset(due.execution_id for due in self._waiting)

    @property
    def backing_off(self) -> frozenset[str]:
        """The executions with a step that waits before its next try."""
        return frozenset(due.execution_id for due in self._waiting if due.is_backoff)

    async def wait(self, due: StepWait) -> None:
        """Wait until the clock of the lab reaches the time."""
        self._waiting.append(due)
        self._changed()
        try:
            await due.over.wait()
        finally:
            if due in self._waiting:
                self._waiting.remove(due)

    def wake(self, now: int) -> set[str]:
        """End the waits whose time has come; return their executions."""
        over = [due for due in self._waiting if due.at <= now]
        for due in over:
            self._waiting.remove(due)
            due.over.set()
        return {due.execution_id for due in over}


class LabTimer(StepTimer):
    """The timer of the steps of one execution, by the clock of the lab."""

    def __init__(self, agenda: StepTimers, clock: Callable[[], int], execution_id: str) -> None:
        self._agenda = agenda
        self._clock = clock
        self._execution_id = execution_id

    async def back_off(self, seconds: float) -> None:
        """Wait before the next try."""
        await self._wait(seconds, is_backoff=True)

    async def time_out(self, seconds: float) -> None:
        """Wait until a try times out."""
        await self._wait(seconds, is_backoff=False)

    async def _wait(self, seconds: float, *, is_backoff: bool) -> None:
        if ms := round(seconds * 1000):
            await self._agenda.wait(StepWait(self._clock() + ms, self._execution_id, is_backoff))

    def chance(self) -> float:
        """Return 0.5, so that jitter is always the same in a lab."""
        return 0.5
