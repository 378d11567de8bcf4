"""The way to one server: connections that are made again when lost, a library that is loaded when it is missing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

from libvalkey import ReplyError

from flowfabric.model.errors import FlowFabricError, SchemaTooNew, StoreClosed, StoreUnusable
from flowfabric.storage.resolve import without_password
from flowfabric.storage.valkey.connection.confirm import ConfirmedWire
from flowfabric.storage.valkey.connection.faults import LEAVE, NO_FUNCTION, first_word, of_reply
from flowfabric.storage.valkey.connection.wire import CALL_SECONDS, Future, Wire, dial, pool_of
from flowfabric.storage.valkey.keys import PREFIX
from flowfabric.storage.valkey.lua.library import VERSION, library

Arguments = tuple[Any, ...]
LOADS: Final = 3
"""How often the library is loaded for one call; whoever removes it may do so again."""


class Client:
    """Calls a server. Nothing is sent twice unless the server said that it did nothing.

    Functions and plain commands have a connection each: a large answer to a question, or replicas that take their
    time, hold nothing else up.
    """

    def __init__(self, url: str, timeout: float = CALL_SECONDS, *, wait: int = 0) -> None:
        self.where = without_password(url)
        self.pool = pool_of(url)
        self.left: list[Callable[[], None]] = []
        """Who wants to know that this server turned out to be a replica."""
        self._functions = Line(self, lambda: ConfirmedWire(timeout, wait) if wait else Wire(timeout))
        self._questions = Line(self, lambda: Wire(timeout))
        self._loading: asyncio.Task[None] | None = None
        self.closed = False

    @property
    def writes(self) -> int:
        """How many times something was written to the present connections."""
        return self._functions.writes + self._questions.writes

    async def call(self, *arguments: Any) -> Any:
        """Ask one thing; raise the error that the server answers."""
        (reply,) = await self.several([arguments])
        if isinstance(reply, ReplyError):
            raise of_reply(reply, str(arguments[0]))
        return reply

    async def several(self, calls: Sequence[Arguments]) -> list[Any]:
        """Ask several things in one write; errors of the server are returned in place, a lost answer is raised."""
        replies = await self._questions.ask(calls)
        for reply in replies:
            if isinstance(reply, FlowFabricError):
                raise reply
        return replies

    @property
    def host(self) -> str:
        """The name of the server."""
        return str(self.pool.connection_kwargs.get("host", "localhost"))

    async def questions(self, calls: Sequence[Arguments]) -> list[Any]:
        """Ask several things in one write; every error is returned in place."""
        replies = await self._questions.ask(calls)
        return [self._translated(reply, call) for reply, call in zip(replies, calls, strict=True)]

    async def questions_in(self, _home: str, calls: Sequence[Arguments]) -> list[Any]:
        """Ask several things about one home; a single server holds all of them."""
        return await self.questions(calls)

    async def pages(self) -> AsyncIterator[list[bytes]]:
        """Read the names of all keys of ours on this server, a page at a time; a name may come twice."""
        cursor = b"0"
        while True:
            cursor, page = await self.call("SCAN", cursor, "MATCH", f"{PREFIX}*", "COUNT", 1000)
            yield page
            if cursor == b"0":
                return

    async def names(self) -> list[bytes]:
        """Return the names of all keys of ours on this server."""
        return sorted({name async for page in self.pages() for name in page})

    async def functions(self, calls: Sequence[Arguments]) -> list[Any]:
        """Call functions in one write; every error is returned in place.

        Where the server does not know them, load the library and ask again: nothing was done.
        """
        return await self._settled(calls, await self._functions.ask(calls))

    async def function(self, call: Arguments) -> Any:
        """Call one function; an error is returned."""
        reply = await self._functions.ask_one(call)
        if isinstance(reply, ReplyError):
            (reply,) = await self._settled([call], [reply])
        return reply

    async def _settled(self, calls: Sequence[Arguments], replies: list[Any]) -> list[Any]:
        """Ask again what the server did not know, and translate its errors."""
        for _ in range(LOADS):
            again = [place for place, reply in enumerate(replies) if _unknown(reply)]
            if not again:
                break
            try:
                await self.load()
                later = await self._functions.ask([calls[place] for place in again])
            except FlowFabricError as error:
                later = [error] * len(again)
            for place, reply in zip(again, later, strict=True):
                replies[place] = reply
        return [self._translated(reply, call) for reply, call in zip(replies, calls, strict=True)]

    @staticmethod
    def _translated(reply: Any, call: Arguments) -> Any:
        return of_reply(reply, str(call[:2][-1])) if isinstance(reply, ReplyError) else reply

    def leave(self) -> None:
        """Let go of a server that has become a replica; the address may lead to another one now."""
        self._functions.leave()
        self._questions.leave()
        for tell in self.left:
            tell()

    async def load(self) -> None:
        """Load the library, unless the server has a newer one; several who ask at once share one load."""
        if self._loading is None or self._loading.done():
            self._loading = asyncio.create_task(self._load())
            self._loading.add_done_callback(_seen)
        await asyncio.shield(self._loading)

    async def _load(self) -> None:
        (found,) = await self.several([("FCALL_RO", "ff_version", 0)])
        if not isinstance(found, ReplyError):
            refuse_library(found)
            if found[1].decode() == library().digest:
                return  # somebody else was faster
        (reply,) = await self.several([("FUNCTION", "LOAD", "REPLACE", library().code)])
        if not isinstance(reply, ReplyError):
            return
        error = of_reply(reply, "FUNCTION LOAD")
        if error.retryable:
            raise error
        raise StoreUnusable(f"the server does not take the function library: {reply}")

    def close(self) -> None:
        """Let the connections go."""
        self.closed = True
        self._functions.close()
        self._questions.close()


def refuse_library(found: Any) -> None:
    """Refuse to replace a library that is newer than ours, or not ours, by what it answers to `ff_version`."""
    if not isinstance(found, list) or len(found) != 2 or not isinstance(found[0], int):
        raise StoreUnusable("the server has the function library of another FlowFabric; use another server")
    if found[0] > VERSION:
        raise SchemaTooNew(f"the function library is version {found[0]}; this FlowFabric has {VERSION}")


class Line:
    """One of a client's connections, made when it is first needed and made again when it was lost."""

    def __init__(self, client: Client, make: Callable[[], Wire]) -> None:
        self._client = client
        self._make = make
        self._wire: Wire | None = None
        self._dialing: asyncio.Task[Wire] | None = None

    @property
    def writes(self) -> int:
        """How many times something was written to the present connection."""
        return self._wire.writes if self._wire is not None else 0

    async def ask_one(self, call: Arguments) -> Any:
        """Do as `ask` does, for one call on a connection that is there: the path that everything hot takes."""
        wire = self._wire
        if wire is None or not wire.alive:
            (reply,) = await self.ask([call])
            return reply
        try:
            reply = await wire.call(call)
        except FlowFabricError as error:
            return error
        if wire is self._wire and _is_replica(reply):
            self._client.leave()
        return reply

    async def ask(self, calls: Sequence[Arguments]) -> list[Any]:
        """Send calls in one write and return their replies; what was lost is an error in its place."""
        try:
            wire = self._wire
            if wire is None or not wire.alive:
                wire = await self._connected()
        except FlowFabricError as error:
            return [error] * len(calls)
        futures = [wire.call(arguments) for arguments in calls]
        replies: list[Any] = []
        try:
            for future in futures:
                try:
                    replies.append(await future)
                except FlowFabricError as error:
                    replies.append(error)
        finally:
            if len(replies) < len(futures):  # whoever asked went away
                _forget(futures)
        if wire is self._wire and any(_is_replica(reply) for reply in replies):
            self._client.leave()
        return replies

    async def _connected(self) -> Wire:
        if self._client.closed:
            raise StoreClosed
        if self._dialing is None or self._dialing.done():
            self._dialing = asyncio.create_task(self._dial())
            self._dialing.add_done_callback(_seen)
        return await asyncio.shield(self._dialing)

    async def _dial(self) -> Wire:
        wire = self._make()
        await dial(self._client.pool, wire, self._client.where)
        if self._client.closed:
            wire.close()
            raise StoreClosed
        self._wire = wire
        return wire

    def leave(self) -> None:
        """Use another connection from now on."""
        if self._wire is not None:
            self._wire.retire()
            self._wire = None

    def close(self) -> None:
        """Let the connection go."""
        if self._wire is not None:
            self._wire.close()


def _forget(futures: Sequence[Future]) -> None:
    for future in futures:
        if not future.cancel():
            _seen(future)


def _seen(future: asyncio.Future[Any]) -> None:
    """Look at an error that nobody may be left to look at, so that nobody complains."""
    if not future.cancelled():
        future.exception()


def _is_replica(reply: Any) -> bool:
    return isinstance(reply, ReplyError) and first_word(reply) in LEAVE


def _unknown(reply: Any) -> bool:
    return isinstance(reply, ReplyError) and str(reply).startswith(NO_FUNCTION)
