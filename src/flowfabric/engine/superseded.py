"""Finds out for a reader of streams which frames count no more; what decides is in `model/superseded.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from flowfabric.model.ids import entry_id
from flowfabric.model.limits import MAX_INT
from flowfabric.model.operations.read import HistoryPage, ReadHistory
from flowfabric.model.operations.stream import StreamPage, TailStream
from flowfabric.model.records import Event, Frame
from flowfabric.model.superseded import Entry, Lease, StoredSteps, Superseded

LINES: Final = 1_000
Read = Callable[[Any], Awaitable[Any]]


async def _history(read: Read, execution_id: str, after: int = 0) -> AsyncIterator[Event]:
    """Yield the lines of a history after one."""
    more = True
    while more:
        page: HistoryPage = await read(ReadHistory(execution_id=execution_id, after=after, limit=LINES))
        for event in page.events:
            yield event
            after = event.seq
        more = bool(page.next)


class Supersession:
    """Reads the history of one execution, as far as it must, and answers from it."""

    def __init__(self, read: Read, execution_id: str) -> None:
        self._read = read
        self._execution_id = execution_id
        self._steps = StoredSteps()
        self._known_until = 0
        """Steps of leases before this one are known: once a lease has begun, those before it store nothing."""

    async def counts(self, frame: Frame, lease_epoch: int) -> bool:
        """Whether a frame still counts while a lease is the newest one."""
        if frame.lease_epoch < lease_epoch and frame.step and self._known_until < lease_epoch:
            await self._refresh()
            self._known_until = lease_epoch
        return self._steps.counts(frame, lease_epoch)

    async def lease_ended(self, attempt_index: int, lease: Lease, last: Entry) -> Superseded:
        """Return what is superseded of a lease whose last frame is known, when the next lease has begun."""
        await self._refresh()
        return self._steps.lease_ended(attempt_index, lease, last)

    async def replay_after(self, attempt_index: int) -> Superseded | None:
        """Return what is superseded if the attempt after one is a replay and anything was streamed before it."""
        await self._refresh()
        found = self._steps.replay_after(attempt_index)
        return found if found is not None and await self._streamed(attempt_index) else None

    async def _refresh(self) -> None:
        async for event in _history(self._read, self._execution_id, self._steps.seq):
            self._steps.add(event)

    async def _streamed(self, until: int) -> bool:
        """Whether any attempt up to one has appended frames."""
        for attempt_index in range(until, -1, -1):
            end = entry_id(MAX_INT, 0)  # the frames themselves are not needed
            page: StreamPage = await self._read(
                TailStream(execution_id=self._execution_id, attempt_index=attempt_index, after=end, count=1)
            )
            if page.leases:
                return True
        return False
