"""Waking: one connection that listens to the server for every topic that somebody in this process listens to."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

from libvalkey import ReplyError
from msgspec import Struct

from flowfabric.model.errors import FlowFabricError, StoreClosed, Unreachable
from flowfabric.storage.valkey.cluster.cluster import Cluster
from flowfabric.storage.valkey.connection.client import Client
from flowfabric.storage.valkey.connection.faults import of_reply
from flowfabric.storage.valkey.connection.wire import CONNECT_SECONDS, Future, Wire, dial
from flowfabric.storage.valkey.keys import CHANNEL
from flowfabric.storage.wake import EVERYTHING, Hub, Listener, of

BEAT_SECONDS: Final = 5.0
"""A connection that is silent for one of these is asked for a sign of life, and given up after another."""
AGAIN_SECONDS: Final = 0.2


class _Unconfirmed(Struct):
    """How many topics of one call the server has still to confirm, and who waits for it."""

    count: int
    future: Future


class Ear(Wire):
    """A connection that is told things instead of being answered."""

    def __init__(self, heard: Callable[[str, bytes], None]) -> None:
        super().__init__()
        self._heard = heard
        self._unconfirmed: deque[_Unconfirmed] = deque()
        self.lost = asyncio.Event()
        self.quiet = False

    async def follow(self, topics: Iterable[str]) -> None:
        """Listen to topics; return when the server has confirmed each of them."""
        channels = [CHANNEL + topic for topic in topics]
        if not channels:
            return
        if not self.alive:
            raise Unreachable("the connection that listens is gone")
        asked = _Unconfirmed(len(channels), self._loop.create_future())
        self._unconfirmed.append(asked)
        self.say("SUBSCRIBE", *channels)
        await asked.future

    def say(self, *arguments: str) -> None:
        """Send something whose confirmation comes as a message."""
        if self.alive:
            self.call(arguments).cancel()
            self._waiting.clear()

    def on_reply(self, reply: Any) -> None:
        """Take a message, or the confirmation of a topic."""
        self.quiet = False
        if isinstance(reply, ReplyError):
            self._refuse(of_reply(reply, "SUBSCRIBE"), 1)
        elif isinstance(reply, list) and reply[0] == b"message":
            self._heard(reply[1].decode().removeprefix(CHANNEL), reply[2])
        elif isinstance(reply, list) and reply[0] == b"subscribe":
            self._confirm()

    def _confirm(self) -> None:
        """Count a confirmation: they come in the order in which topics were asked for."""
        asked = self._unconfirmed[0] if self._unconfirmed else None
        if asked is None:
            return
        asked.count -= 1
        if not asked.count:
            self._unconfirmed.popleft()
            if not asked.future.done():
                asked.future.set_result(None)

    def _refuse(self, error: FlowFabricError, count: int) -> None:
        """Tell the first so many who wait for confirmations that they get none."""
        for _ in range(min(count, len(self._unconfirmed))):
            future = self._unconfirmed.popleft().future
            if not future.done():
                future.set_exception(error)

    def _give_up(self, why: str) -> None:
        super()._give_up(why)
        self._refuse(Unreachable(f"{why}; nobody listens"), len(self._unconfirmed))
        self.lost.set()


class Wakeups:
    """Follows the listeners of a hub."""

    def __init__(
        self,
        client: Client | Cluster,
        hub: Hub,
        told: Callable[[str, bytes], bytes],
        deaf: Callable[[], None],
    ) -> None:
        """Wake the listeners of a hub; `told` hears what comes with a wake-up first, `deaf` that some may be lost.

        What `told` returns are the namespaces in which it happened, one in a line.
        """
        self._client = client
        self._hub = hub
        self._told = told
        self._deaf = deaf
        self._wanted: Counter[str] = Counter()
        self._ear: Ear | None = None
        self._ready: asyncio.Future[Ear] | None = None
        self._task: asyncio.Task[None] | None = None
        self._has_heard = False
        self._closed = False
        client.left.append(self._leave)

    @asynccontextmanager
    async def subscribe(self, topics: Iterable[str], namespace: str = "") -> AsyncIterator[Listener]:
        """Listen; when this begins, the server has confirmed every topic, so that nothing after it is lost."""
        wanted = list(dict.fromkeys(topics))
        async with self._hub.subscribe(wanted, namespace) as listener:
            self._wanted.update(wanted)
            try:
                await self._confirmed(wanted)
                yield listener
            finally:
                self._forget(wanted)

    async def _confirmed(self, topics: list[str]) -> None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS + BEAT_SECONDS):
                while True:
                    ear = await self._listening()
                    try:
                        return await ear.follow(topics)
                    except Unreachable:
                        if ear.alive:
                            raise  # lost ones are made again
        except TimeoutError:
            raise Unreachable(f"{self._client.where} confirms no subscription; nobody listens") from None

    async def _listening(self) -> Ear:
        """Return the connection, once it is there; raise why it cannot be made."""
        if self._closed:
            raise StoreClosed
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._keep())
        return await asyncio.shield(self._expected())

    def _expected(self) -> asyncio.Future[Ear]:
        """Return what becomes the connection; one that was lost, or could not be made, is not waited for twice."""
        ready = self._ready
        if ready is None or (ready.done() and (ready.exception() or not ready.result().alive)):
            self._ready = ready = asyncio.get_running_loop().create_future()
        return ready

    def _forget(self, topics: list[str]) -> None:
        self._wanted.subtract(topics)
        gone = [topic for topic in topics if self._wanted[topic] <= 0]
        for topic in gone:
            del self._wanted[topic]
        if gone and self._ear is not None:
            self._ear.say("UNSUBSCRIBE", *(CHANNEL + topic for topic in gone))

    async def _keep(self) -> None:
        """Keep listening: a connection that is lost, or silent for too long, is made again, and everybody woken."""
        while not self._closed:  # a cancellation may be lost in what was just being awaited
            try:
                self._ear = ear = await self._listen()
            except FlowFabricError as error:
                failed = self._expected()
                failed.set_exception(error)
                failed.exception()  # perhaps nobody waits for it
                if not self._wanted:
                    return
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            if self._closed:
                ear.close()
                return
            self._expected().set_result(ear)
            if self._has_heard:
                self._deaf()
                self._hub.publish({EVERYTHING})
            self._has_heard = True
            await self._watch(ear)

    async def _listen(self) -> Ear:
        ear = Ear(self._heard)
        await dial(self._client.pool, ear, self._client.where)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await ear.follow(list(self._wanted))
        except BaseException as error:
            ear.abort("it confirms nothing")
            if isinstance(error, TimeoutError):
                raise Unreachable(f"{self._client.where} confirms no subscription") from None
            raise
        return ear

    @staticmethod
    async def _watch(ear: Ear) -> None:
        """Return when a connection is of no more use."""
        while ear.alive:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT_SECONDS):
                    await ear.lost.wait()
            if ear.quiet:
                ear.abort("the server is silent")
            ear.quiet = True
            ear.say("PING")

    def _heard(self, topic: str, text: bytes) -> None:
        namespaces = self._told(topic, text)
        if topic == "due":
            self._hub.publish((), int(text))
        else:
            named = namespaces.decode().split("\n") if namespaces else ()
            self._hub.publish([of(topic, namespace) for namespace in named] or (topic,))

    def _leave(self) -> None:
        if self._ear is not None:
            self._ear.abort("the server became a replica")

    def close(self) -> None:
        """Stop listening."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(StoreClosed())
            self._ready.exception()  # perhaps nobody waits for it
        if self._ear is not None:
            self._ear.close()
            self._ear.lost.set()
