"""What all live feeds of one server share: a limit, patience, and one reader of the feed for all who listen to it.

An idle listener is one event in this process: it holds no connection to the store and asks it nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final, TypeVar

from flowfabric.engine.waiting import LOOK_SECONDS
from flowfabric.model.command import Question
from flowfabric.model.errors import FlowFabricError, StoreClosed
from flowfabric.model.operations.read_list import FeedEntry, ReadFeed
from flowfabric.server.access.fences import line_without_fence
from flowfabric.server.access.revocation import Revocation
from flowfabric.server.access.roles import Principal
from flowfabric.server.http.call import ServerStopping
from flowfabric.server.live.sse import message
from flowfabric.storage.base import Upkeep
from flowfabric.wire.errors import HttpError
from flowfabric.wire.views import EventView

R = TypeVar("R")
MAX_STREAMS: Final = 10_000
MAX_STREAMS_OF_TOKEN: Final = 2_000
MAX_TOPICS: Final = 200_000
"""How many topics all streams of wake-ups together listen to; each costs memory, here and in the store."""
MAX_TOPICS_OF_TOKEN: Final = 50_000
HEARTBEAT_SECONDS: Final = 15.0
BUFFER: Final = 4_096
"""How many changes wait for a listener of the feed before it is dropped."""
SLOW_SECONDS: Final = 10.0
"""A reader that makes us wait longer for one chunk is dropped."""
GIVE_UP_SECONDS: Final = 60.0
"""How long such a reader has to take what was already written."""
READS_AT_ONCE: Final = 16
LARGE_READS_AT_ONCE: Final = 4
"""Frames and rows may be large: what is read and not yet written out is all in memory."""
OPENED_AT_ONCE: Final = 8
PAGE: Final = 500

log = logging.getLogger("flowfabric.server")
Shown = tuple[FeedEntry, bytes]
"""A change, and how it is sent: written once for all listeners."""


class Seat:
    """The place of one stream, counted from when it is asked for until it ends."""

    def __init__(self, live: Live, principal: Principal, topics: int) -> None:
        self.live = live
        self.principal = principal
        self.topics = topics
        self.taken = False
        """Whether a stream has it, which gives it back."""

    @property
    def holder(self) -> str:
        """Whose streams are counted together."""
        return self.principal.token_id or self.principal.name


class Live:
    """The live feeds of one server."""

    def __init__(
        self,
        store: Upkeep,
        stopping: asyncio.Event,
        revocation: Revocation,
        limit: int = MAX_STREAMS,
        limit_of_token: int = MAX_STREAMS_OF_TOKEN,
    ) -> None:
        self.store = store
        self.stopping = stopping
        self.revocation = revocation
        self.limit = limit
        self.limit_of_token = limit_of_token
        self.heartbeat_seconds = HEARTBEAT_SECONDS
        self.buffer = BUFFER
        self.slow_seconds = SLOW_SECONDS
        self.give_up_seconds = GIVE_UP_SECONDS
        self.on_told: Callable[[int], None] | None = None
        """Hears when the oldest change of a page was made, once the listeners have been told."""
        self.streams: set[asyncio.Task[None]] = set()
        self.feed = FeedReader(self)
        self._open: Counter[str] = Counter()
        self._topics: Counter[str] = Counter()
        self._watch: asyncio.Task[None] | None = None
        self._reads = asyncio.Semaphore(READS_AT_ONCE)
        self._large_reads = asyncio.Semaphore(LARGE_READS_AT_ONCE)
        self.opening = asyncio.Semaphore(OPENED_AT_ONCE)
        """Many who come at once begin to listen a few at a time, so that nobody else has to wait for them."""

    @contextlib.contextmanager
    def seat(self, principal: Principal, topics: int = 0) -> Iterator[Seat]:
        """Count a stream from now on; refuse it where that is one too many. One that does not begin is let go."""
        seat = Seat(self, principal, topics)
        self._check_room(seat)
        self._open[seat.holder] += 1
        self._topics[seat.holder] += topics
        if self._watch is None:
            self._watch = asyncio.create_task(self._end_with_server(), name="flowfabric-live")
        try:
            yield seat
        finally:
            if not seat.taken:
                self.leave(seat)

    def _check_room(self, seat: Seat) -> None:
        if self.stopping.is_set():
            raise ServerStopping
        for pool, wanted, taken, of_token, in_all in (
            ("sse calls", 1, self._open, self.limit_of_token, self.limit),
            ("topics of wake-ups", seat.topics, self._topics, MAX_TOPICS_OF_TOKEN, MAX_TOPICS),
        ):
            if taken[seat.holder] + wanted > of_token:
                raise _too_many(pool, f"max for one token: {of_token}")
            if taken.total() + wanted > in_all:
                raise _too_many(pool, f"server max: {in_all}")

    def leave(self, seat: Seat) -> None:
        """Count a stream no longer."""
        for counter, count in ((self._open, 1), (self._topics, seat.topics)):
            counter[seat.holder] -= count
            if not counter[seat.holder]:
                del counter[seat.holder]
        if not self._open and self._watch is not None:
            self._watch.cancel()
            self._watch = None

    @property
    def open(self) -> int:
        """How many streams are open."""
        return self._open.total()

    async def read(self, question: Question[R]) -> R:
        """Ask the store; when a wake-up reaches everybody, they ask a few at a time."""
        async with self._reads:
            return await self.store.read(question)

    async def read_large(self, reading: Awaitable[R]) -> R:
        """Read what may be large, for whomever: only a few pages of it are on their way at once."""
        async with self._large_reads:
            return await reading

    async def _end_with_server(self) -> None:
        """End every stream when the server stops; readers come back with their last id."""
        await self.stopping.wait()
        for stream in self.streams:
            stream.cancel()


def _too_many(pool: str, limit: str) -> HttpError:
    return HttpError(
        429,
        f"too many concurrent {pool} ({limit}); retry with backoff",
        "resource_exhausted",
        kind="resource_exhausted",
        retryable=True,
    )


class FeedListener:
    """The waiting place of one reader of the feed, as long as the buffer and no longer."""

    def __init__(self, accepts: Callable[[FeedEntry], bool], buffer: int) -> None:
        self._accepts = accepts
        self._buffer = buffer
        self._waiting: deque[bytes] = deque()
        self._woken = asyncio.Event()
        self.overrun = False
        """Whether something had to be left out after what waits here."""
        self.ended = False

    def offer(self, changes: list[Shown]) -> None:
        """Take what this reader wants to see."""
        for entry, text in changes:
            if self.overrun or not self._accepts(entry):
                continue
            if len(self._waiting) >= self._buffer:
                self.overrun = True
            else:
                self._waiting.append(text)
        if self._waiting or self.overrun:
            self._woken.set()

    def end(self) -> None:
        """Say that nothing will come any more."""
        self.ended = True
        self._woken.set()

    async def take(self, timeout: float) -> list[bytes]:  # noqa: ASYNC109 - the wait itself is the purpose
        """Return what waits here; nothing when nothing came in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._woken.wait()
        self._woken.clear()
        taken = list(self._waiting)
        self._waiting.clear()
        return taken


class FeedReader:
    """Follows the feed once for everybody, while anybody listens."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._listeners: set[FeedListener] = set()
        self._users = 0
        self._starting = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self.position = 0
        """Up to where the listeners were told."""

    @contextlib.asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Keep the reader going for a while."""
        self._users += 1
        try:
            async with self._starting:
                if self._task is None or self._task.done():
                    self.position = (await self._live.read(ReadFeed(after=0, limit=1))).last
                    self._task = asyncio.create_task(self._follow(), name="flowfabric-feed")
            yield
        finally:
            self._users -= 1
            if not self._users and self._task is not None:
                self._task.cancel()
                self._task = None

    @contextlib.contextmanager
    def listening(self, accepts: Callable[[FeedEntry], bool]) -> Iterator[FeedListener]:
        """Get everything after the present position."""
        listener = FeedListener(accepts, self._live.buffer)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    async def bounds(self) -> tuple[int, int]:
        """Return the position after which nothing is missing, and the newest one."""
        page = await self._live.read(ReadFeed(after=0, limit=1))
        return page.floor, page.last

    async def past(self, after: int) -> tuple[tuple[FeedEntry, ...], int]:
        """Return a page of what came after a position, and where to go on."""
        page = await self._live.read(ReadFeed(after=after, limit=PAGE))
        return page.entries, page.next

    async def _follow(self) -> None:
        try:
            async with self._live.store.subscribe(["feed"]) as woken:
                while True:
                    if not await self._page():
                        await woken.wait(LOOK_SECONDS)
        except StoreClosed:
            pass
        finally:
            for listener in self._listeners:
                listener.end()

    async def _page(self) -> bool:
        """Tell everybody the next page; say whether more may follow at once."""
        try:
            entries, position = await self.past(self.position)
        except StoreClosed:
            raise
        except FlowFabricError as error:
            log.warning("the feed pauses: %s", error)
            return False
        changes = [(entry, feed_message(entry)) for entry in entries if is_change(entry)]
        self.position = position
        for listener in self._listeners:
            listener.offer(changes)
        if changes and self._live.on_told is not None:
            self._live.on_told(changes[0][0].event.at)
        return len(entries) == PAGE


def is_change(entry: FeedEntry) -> bool:
    """Whether a line of history changed what users see."""
    return entry.event.from_state != entry.event.to_state


def feed_message(entry: FeedEntry) -> bytes:
    """Write a change as a message of the feed."""
    data = {
        "execution_id": entry.execution_id,
        "namespace": entry.namespace,
        "lane_id": entry.lane_id,
        "execution_kind": entry.execution_kind,
        "flow_id": entry.flow_id or None,
        "public_state": entry.event.to_state,
    } | EventView.of(line_without_fence(entry.event)).to_dict()
    return message("state", data, str(entry.position))
