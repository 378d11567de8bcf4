"""Being woken over HTTP: one live stream for all who listen in this process.

A subscription begins when the server has said that it listens, so that nothing that happens afterwards is lost. When
new topics come, a new stream is opened for all of them before the old one ends. After a break everybody is woken once:
whatever happened in between may concern anybody.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

import msgspec

from flowfabric.client.failures import failure
from flowfabric.client.transport import HttpRequest, Transport
from flowfabric.model.errors import FlowFabricError, NotOffered, Unreachable
from flowfabric.storage.wake import Listener
from flowfabric.wire.read import MAX_TOPICS

KEPT: Final = 100
"""How many topics that nobody listens to any more are kept: a worker that waits again opens no new stream."""
MAX_LINE_BYTES: Final = 1_048_576

log = logging.getLogger("flowfabric.client")


class _Line:
    """One stream and the topics that it carries."""

    def __init__(self, owner: WakeupStreams, topics: frozenset[str]) -> None:
        self.topics = topics
        self._owner = owner
        self.listening: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(self._run(), name="flowfabric-wakeups")

    async def _run(self) -> None:
        turn = 0
        while True:
            try:
                await self._follow()
                turn = 0
            except FlowFabricError as error:
                if not self.listening.done() and not error.retryable:
                    self.listening.set_exception(error)
                    return
                log.info("wake-ups pause: %s", error.code)
            except asyncio.CancelledError:
                self.listening.cancel()
                raise
            turn += 1
            self._owner.wake_all(self.topics)  # nobody waits for a stream that does not come back
            await asyncio.sleep(self._owner.pause(turn))

    async def _follow(self) -> None:
        """Read one stream to its end."""
        async for event, data in self._owner.messages(self.topics):
            if event == "listening":
                if self.listening.done():
                    self._owner.wake_all(self.topics)
                else:
                    self.listening.set_result(None)
            elif event == "wake":
                self._owner.wake(msgspec.json.decode(data)["topics"])

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        if self.listening.done() and not self.listening.cancelled():
            self.listening.exception()


class WakeupStreams:
    """Who listens to what in this process, and the streams that tell."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._listeners: dict[str, set[Listener]] = {}
        self._kept: dict[str, None] = {}
        self._lines: list[_Line] = []
        self._changing = asyncio.Lock()

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return len(self._lines)

    @contextlib.asynccontextmanager
    async def subscribe(self, topics: Iterable[str]) -> AsyncIterator[Listener]:
        """Listen to some topics for a while."""
        listener = Listener(frozenset(topics))
        if "due" in listener.topics:
            raise NotOffered("the topic due is not offered over HTTP: timers run in the server")
        for topic in listener.topics:
            self._listeners.setdefault(topic, set()).add(listener)
            self._kept.pop(topic, None)
        try:
            await self._cover(listener.topics)
            yield listener
        finally:
            self._leave(listener)

    def wake(self, topics: Iterable[str]) -> None:
        """Wake whoever listens to any of these."""
        for topic in topics:
            for listener in self._listeners.get(topic, ()):
                listener.wake((topic,))

    def wake_all(self, topics: Iterable[str]) -> None:
        """Wake all listeners of a stream that was broken."""
        self.wake(topics)

    async def close(self) -> None:
        """End every stream."""
        lines, self._lines = self._lines, []
        for line in lines:
            await line.end()

    def _leave(self, listener: Listener) -> None:
        for topic in listener.topics:
            listeners = self._listeners[topic]
            listeners.discard(listener)
            if not listeners:
                del self._listeners[topic]
                self._kept[topic] = None
        while len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]

    async def _cover(self, topics: frozenset[str]) -> None:
        """See to it that the server tells about these topics."""
        async with self._changing:
            carried = frozenset[str]().union(*(line.topics for line in self._lines))
            if not topics <= carried:
                await self._extend(topics - carried)
            for line in self._lines:
                if not topics.isdisjoint(line.topics):
                    await asyncio.shield(line.listening)

    async def _extend(self, missing: frozenset[str]) -> None:
        """Open a stream for what is missing and, as far as there is room, for what the last one carries."""
        replaced: list[_Line] = []
        wanted = set(missing)
        if self._lines:
            last = self._lines[-1]
            heard = {topic for topic in last.topics if topic in self._listeners or topic in self._kept}
            if len(heard | wanted) <= MAX_TOPICS:
                replaced.append(last)
                wanted |= heard
        many = sorted(wanted)
        opened = [_Line(self, frozenset(many[i : i + MAX_TOPICS])) for i in range(0, len(many), MAX_TOPICS)]
        try:
            for line in opened:
                await asyncio.shield(line.listening)
        except BaseException:
            for line in opened:
                await line.end()
            raise
        self._lines = [line for line in self._lines if line not in replaced] + opened
        for line in replaced:
            await line.end()

    def pause(self, turn: int) -> float:
        """Return how long to wait before a stream is opened again."""
        limits = self._transport.limits
        longest = min(limits.first_pause_seconds * 2 ** min(turn - 1, 16), limits.longest_pause_seconds)
        pause: float = longest * (0.5 + random.random() / 2)  # noqa: S311 - it only spreads clients
        return pause

    async def messages(self, topics: frozenset[str]) -> AsyncIterator[tuple[str, bytes]]:
        """Open a stream and return its messages until it ends."""
        import aiohttp  # noqa: PLC0415 - optional

        request = HttpRequest(method="POST", path="/v1/wakeups", accept="text/event-stream")
        limits = self._transport.limits
        waits = aiohttp.ClientTimeout(
            total=None, sock_connect=limits.connect_seconds, sock_read=limits.silence_seconds
        )
        try:
            async with self._transport.streams().post(
                self._transport.url(request),
                data=msgspec.json.encode({"topics": sorted(topics)}),
                headers={"Accept": request.accept, "Content-Type": "application/json"},
                timeout=waits,
                allow_redirects=False,
                read_bufsize=MAX_LINE_BYTES,
            ) as response:
                if response.status != 200:
                    raise failure(response.status, await response.content.read(MAX_LINE_BYTES))
                async for message in _messages(response):
                    yield message
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise Unreachable(f"the stream of wake-ups broke ({type(error).__name__})") from error


async def _messages(response: Any) -> AsyncIterator[tuple[str, bytes]]:
    event, data = "", b""
    async for line in response.content:
        name, _, value = line.rstrip(b"\r\n").partition(b": ")
        if name == b"event":
            event = value.decode()
        elif name == b"data":
            data = value
        elif not name and not value and event:
            yield event, data
            event, data = "", b""
