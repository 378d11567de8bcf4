"""Waking: one connection that listens to the server for every topic that somebody in this process listens to."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

from flowfabric.model.errors import FlowFabricError, StoreClosed
from flowfabric.storage.valkey.client import Client
from flowfabric.storage.valkey.keys import CHANNEL
from flowfabric.storage.valkey.wire import Wire, dial
from flowfabric.storage.wake import EVERYTHING, Hub, Listener

BEAT_SECONDS: Final = 5.0
AGAIN_SECONDS: Final = 0.2


class _Ear(Wire):
    """A connection that is told things instead of being answered."""

    def __init__(self, heard: Callable[[list[Any]], None], lost: Callable[[], None]) -> None:
        super().__init__()
        self._heard = heard
        self._lost = lost
        self.quiet = True

    def on_reply(self, reply: Any) -> None:
        self.quiet = False
        if isinstance(reply, list):
            self._heard(reply)

    def say(self, *arguments: str) -> None:
        """Send something whose confirmation comes as a message."""
        self.call(arguments).cancel()
        self._waiting.clear()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._lost()


class Wakeups:
    """Follows the listeners of a hub."""

    def __init__(self, client: Client, hub: Hub) -> None:
        self._client = client
        self._hub = hub
        self._wanted: Counter[str] = Counter()
        self._unconfirmed: dict[str, list[asyncio.Future[None]]] = defaultdict(list)
        self._ear: _Ear | None = None
        self._task: asyncio.Task[None] | None = None
        self._broken = asyncio.Event()
        self._ready = asyncio.Event()
        self._closed = False

    @asynccontextmanager
    async def subscribe(self, topics: Iterable[str]) -> AsyncIterator[Listener]:
        """Listen; when this begins, the server has confirmed every topic, so that nothing after it is lost."""
        wanted = list(dict.fromkeys(topics))
        async with self._hub.subscribe(wanted) as listener:
            self._wanted.update(wanted)
            try:
                await self._confirmed(wanted)
                yield listener
            finally:
                self._forget(wanted)

    async def _confirmed(self, topics: list[str]) -> None:
        if self._closed:
            raise StoreClosed
        ear = self._ear
        if ear is None or not ear.alive:
            if self._task is None:
                await self._listen()  # whoever comes first is told when it cannot be done
                self._task = asyncio.create_task(self._keep())
            else:
                await self._ready.wait()
            ear = self._ear
        assert ear is not None
        loop = asyncio.get_running_loop()
        confirmations = []
        for topic in topics:
            future: asyncio.Future[None] = loop.create_future()
            self._unconfirmed[CHANNEL + topic].append(future)
            confirmations.append(future)
        if topics:
            ear.say("SUBSCRIBE", *(CHANNEL + topic for topic in topics))
            await asyncio.wait(confirmations)

    def _forget(self, topics: list[str]) -> None:
        self._wanted.subtract(topics)
        gone = [topic for topic in topics if self._wanted[topic] <= 0]
        for topic in gone:
            del self._wanted[topic]
        if gone and self._ear is not None and self._ear.alive:
            self._ear.say("UNSUBSCRIBE", *(CHANNEL + topic for topic in gone))

    async def _listen(self) -> None:
        ear = _Ear(self._heard, self._broken.set)
        await dial(self._client.pool, ear, self._client.where)
        self._broken.clear()
        self._ear = ear
        if self._wanted:
            ear.say("SUBSCRIBE", *(CHANNEL + topic for topic in self._wanted))
        self._ready.set()

    async def _keep(self) -> None:
        """Keep listening: a connection that is lost, or silent for too long, is made again, and everybody woken."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT_SECONDS):
                    await self._broken.wait()
            ear = self._ear
            assert ear is not None
            if ear.alive and not ear.quiet:
                ear.quiet = True
                ear.say("PING")
                continue
            self._ready.clear()
            ear.abort("the server is silent")
            await self._listen_again()
            self._hub.publish({EVERYTHING})

    async def _listen_again(self) -> None:
        while True:
            try:
                await self._listen()
            except FlowFabricError:
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                break
        for futures in self._unconfirmed.values():  # they are among those asked for on the new connection
            for future in futures:
                if not future.done():
                    future.set_result(None)
        self._unconfirmed.clear()

    def _heard(self, message: list[Any]) -> None:
        kind, channel = message[0], message[1].decode()
        if kind == b"message":
            topic = channel.removeprefix(CHANNEL)
            if topic == "due":
                self._hub.publish((), int(message[2]))
            else:
                self._hub.publish((topic,))
        elif kind == b"subscribe" and self._unconfirmed.get(channel):
            future = self._unconfirmed[channel].pop(0)
            if not self._unconfirmed[channel]:
                del self._unconfirmed[channel]
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        """Stop listening."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
        if self._ear is not None:
            self._ear.close()
