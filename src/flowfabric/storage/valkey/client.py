"""The way to one server: a connection that is made again when lost, a library that is loaded when it is missing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from libvalkey import ReplyError

from flowfabric.model.errors import FlowFabricError, StoreClosed, StoreUnusable
from flowfabric.storage.resolve import without_password
from flowfabric.storage.valkey.faults import LEAVE, NO_FUNCTION, first_word, of_reply
from flowfabric.storage.valkey.keys import PREFIX
from flowfabric.storage.valkey.library import library
from flowfabric.storage.valkey.wire import CALL_SECONDS, Wire, dial, pool_of

Arguments = tuple[Any, ...]


class Client:
    """Calls a server. Nothing is sent twice unless the server said that it did nothing."""

    def __init__(self, url: str, timeout: float = CALL_SECONDS) -> None:
        self.where = without_password(url)
        self.pool = pool_of(url)
        self._timeout = timeout
        self._wire: Wire | None = None
        self._dialing: asyncio.Task[Wire] | None = None
        self._loading: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def writes(self) -> int:
        """How many times something was written to the present connection."""
        return self._wire.writes if self._wire is not None else 0

    async def call(self, *arguments: Any) -> Any:
        """Ask one thing; raise the error that the server answers."""
        (reply,) = await self.several([arguments])
        if isinstance(reply, ReplyError):
            raise of_reply(reply, str(arguments[0]))
        return reply

    async def several(self, calls: Sequence[Arguments]) -> list[Any]:
        """Ask several things in one write; errors of the server are returned in place."""
        wire = self._wire
        if wire is None or not wire.alive:
            wire = await self._connected()
        futures = [wire.call(arguments) for arguments in calls]
        replies: list[Any] = []
        lost: BaseException | None = None
        for future in futures:
            try:
                replies.append(await future)
            except FlowFabricError as error:
                lost = error
                replies.append(error)
        if lost is not None and len(calls) == 1:
            raise lost
        return replies

    async def names(self) -> list[bytes]:
        """Return the names of all keys of ours on this server."""
        found: set[bytes] = set()
        cursor = b"0"
        while True:
            cursor, page = await self.call("SCAN", cursor, "MATCH", f"{PREFIX}*", "COUNT", 1000)
            found.update(page)
            if cursor == b"0":
                return sorted(found)

    async def functions(self, calls: Sequence[Arguments]) -> list[Any]:
        """Call functions in one write; where the server does not know them, load the library and ask once more."""
        replies = await self.several(calls)
        if any(isinstance(reply, ReplyError) for reply in replies):
            again = [place for place, reply in enumerate(replies) if _unknown(reply)]
            if again:
                await self.load()
                for place, reply in zip(again, await self.several([calls[at] for at in again]), strict=True):
                    replies[place] = reply
            return [self._translated(reply, call) for reply, call in zip(replies, calls, strict=True)]
        return replies

    def _translated(self, reply: Any, call: Arguments) -> Any:
        if not isinstance(reply, ReplyError):
            return reply
        if first_word(reply) in LEAVE and self._wire is not None:
            self._wire.abort("the server became a replica")
        return of_reply(reply, str(call[1]))

    async def load(self) -> None:
        """Load the library; several who ask at once share one load."""
        if self._loading is None or self._loading.done():
            self._loading = asyncio.create_task(self._load())
        await asyncio.shield(self._loading)

    async def _load(self) -> None:
        (reply,) = await self.several([("FUNCTION", "LOAD", "REPLACE", library().code)])
        if isinstance(reply, ReplyError):
            raise StoreUnusable(f"the server does not take the function library: {reply}")

    async def _connected(self) -> Wire:
        if self._closed:
            raise StoreClosed
        if self._dialing is None or self._dialing.done():
            self._dialing = asyncio.create_task(self._dial())
        return await asyncio.shield(self._dialing)

    async def _dial(self) -> Wire:
        wire = Wire(self._timeout)
        await dial(self.pool, wire, self.where)
        self._wire = wire
        return wire

    def close(self) -> None:
        """Let the connection go."""
        self._closed = True
        if self._wire is not None:
            self._wire.close()


def _unknown(reply: Any) -> bool:
    return isinstance(reply, ReplyError) and str(reply).startswith(NO_FUNCTION)
