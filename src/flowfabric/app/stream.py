"""Following the stream of a run across its attempts."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any, Final

from flowfabric.app.retrying import retry_while_away
from flowfabric.app.views import AttemptStarted, Frame, Superseded, frame_of, start_of, superseded_of
from flowfabric.engine.superseded import Supersession
from flowfabric.model import superseded as model
from flowfabric.model.errors import invalid
from flowfabric.model.ids import entry_id, parse_entry_id
from flowfabric.model.operations.read import GetExecution, ListAttempts
from flowfabric.model.operations.stream import FrameView, StreamPage, TailStream
from flowfabric.model.records import Execution
from flowfabric.model.state import TERMINAL_STATES
from flowfabric.model.superseded import Told, lease_of, mark_told, unmark_told
from flowfabric.storage.base import Commands

PAGE: Final = 100
LOOK_SECONDS: Final = 5.0
"""How often a reader polls if nothing wakes it."""

StreamItem = Frame | AttemptStarted | Superseded


async def follow(
    store: Commands,
    execution_id: str,
    after: str = "",
    *,
    include_superseded: bool = False,
    until_end: bool = True,
) -> AsyncGenerator[StreamItem]:
    """Yield the frames of every attempt, in order, until the run ends. Reconnects if the store becomes unreachable.

    Frames that are already superseded are left out unless requested. Without `until_end` it stops at the last stored
    frame.
    """
    reader = _Reader(store, execution_id, after, include_superseded=include_superseded)
    async with AsyncExitStack() as stack:
        topics = [f"execution:{execution_id}"]
        woken = await retry_while_away(lambda: stack.enter_async_context(store.subscribe(topics)))
        while True:
            # The record is read before the frames, so that no frame is missed before an end or a lease that it shows.
            run = await reader.read(GetExecution(execution_id=execution_id))
            async for item in reader.news(run):
                yield item
            if run.attempt.index > reader.attempt:
                reader.next_attempt()
            elif run.public_state in TERMINAL_STATES or not until_end:
                return
            elif not reader.behind:
                await woken.wait(LOOK_SECONDS)


class _Reader:
    """The position of one reader, and what it has shown."""

    def __init__(self, store: Commands, execution_id: str, after: str, *, include_superseded: bool) -> None:
        self._store = store
        self._execution_id = execution_id
        self._include_superseded = include_superseded
        self.attempt, self._entry, told = _place(after)
        self._announced = bool(after)
        self._shown = bool(after) and told is Told.NOTHING and self._entry > (0, 0)
        """Whether shown frames of the last lease may still become superseded."""
        self._any = bool(after) and told is not Told.BY_REPLAY
        """Whether any frame was shown."""
        self.behind = False
        """Whether the stream has frames of a newer lease than the record shows."""
        self._supersession = Supersession(self.read, execution_id)

    async def read(self, question: Any) -> Any:
        """Ask the store, and retry while it is unreachable."""
        return await retry_while_away(lambda: self._store.read(question))

    def next_attempt(self) -> None:
        """Continue with the stream of the next attempt."""
        self.attempt, self._entry, self._announced, self._shown = self.attempt + 1, (0, 0), False, False

    async def news(self, run: Execution) -> AsyncGenerator[StreamItem]:
        """Yield the new items of the current attempt, up to the lease that the record of the run shows."""
        if run.attempt.index >= self.attempt and not self._announced:
            self._announced = True
            yield await self._start()
        self.behind = False
        page: StreamPage | None = None
        while self._announced and not self.behind:
            page = await self._page()
            for view in page.frames:
                if view.frame.lease_epoch > run.current_lease_epoch:
                    self.behind = True
                    break
                async for item in self._frame(view, page, run.current_lease_epoch):
                    yield item
            if not page.last:
                break
        if page is not None and not self.behind:
            async for item in self._drained(run, page):
                yield item

    async def _frame(self, view: FrameView, page: StreamPage, newest: int) -> AsyncGenerator[StreamItem]:
        frame = view.frame
        if (item := await self._lease_ended(page, frame.lease_epoch)) is not None:
            yield item
        self._entry = frame.ms, frame.seq
        if self._include_superseded or await self._supersession.counts(frame, newest):
            self._any = True
            self._shown = self._include_superseded or frame.lease_epoch >= newest
            yield frame_of(view, self.attempt)

    async def _drained(self, run: Execution, page: StreamPage) -> AsyncGenerator[StreamItem]:
        """Yield what a newer lease supersedes, once all frames of earlier leases were yielded."""
        if run.attempt.index > self.attempt and self._any:
            replayed = await self._supersession.replay_after(self.attempt)
            if replayed is not None:
                self._shown = False
                yield self._superseded(replayed)
                return
        if (item := await self._lease_ended(page, run.current_lease_epoch)) is not None:
            yield item

    async def _lease_ended(self, page: StreamPage, newer: int) -> Superseded | None:
        """Return which shown frames are superseded, if a newer lease than theirs has begun."""
        lease = lease_of(page.leases, self._entry) if self._shown else None
        if lease is None or lease.epoch >= newer:
            return None
        self._shown = False
        found = await self._supersession.lease_ended(self.attempt, lease, self._entry)
        return self._superseded(found)

    def _superseded(self, found: model.Superseded) -> Superseded:
        return superseded_of(found, f"{self.attempt}.{entry_id(*mark_told(self._entry, found))}")

    async def _page(self) -> StreamPage:
        page: StreamPage = await self.read(
            TailStream(
                execution_id=self._execution_id,
                attempt_index=self.attempt,
                after=entry_id(*self._entry),
                count=PAGE,
            )
        )
        return page

    async def _start(self) -> AttemptStarted:
        attempts = await self.read(ListAttempts(execution_id=self._execution_id))
        known = {each.index: each for each in attempts}
        if self.attempt not in known:
            return AttemptStarted(self.attempt)
        return start_of(known[self.attempt], known.get(self.attempt - 1))


def _place(after: str) -> tuple[int, tuple[int, int], Told]:
    """Parse the position of the last item that was seen: attempt, frame, and what was said about it."""
    if not after:
        return 0, (0, 0), Told.NOTHING
    attempt, separator, entry = after.partition(".")
    if not separator or not attempt.isdecimal() or len(attempt) > 9:
        raise invalid("after", "give the `position` of a frame, as in 0.1700000000000-0")
    return int(attempt), *unmark_told(parse_entry_id("after", entry))
