"""One connection on which any number of calls are under way: all calls of a turn of the loop leave in one write.

Commands among them share calls of the server (several.py); each caller gets its own reply all the same.
When nothing is under way, the first of a turn leave before the others: otherwise server and caller would always wait
for each other, because the server answers in one write what came in one write.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, cast
from urllib.parse import urlsplit

from libvalkey import ProtocolError, Reader, pack_command
from valkey.asyncio.connection import AbstractConnection, ConnectionPool
from valkey.exceptions import ValkeyError

from flowfabric.model.errors import StoreUnusable, Unreachable
from flowfabric.storage.resolve import without_password
from flowfabric.storage.valkey.connection.faults import NotAsked, of_connecting
from flowfabric.storage.valkey.connection.several import Arguments, grouped, together

CONNECT_SECONDS: Final = 5.0
"""For all that happens until a connection can be used: name, TCP, TLS, password, database."""
CALL_SECONDS: Final = 10.0
"""A server that has not answered anything for so long is given up; what was asked may have been done."""
EARLY: Final = 8
"""So many calls leave at once when nothing is under way: the server works on them while the rest of a turn is made."""
Future = asyncio.Future[Any]


class Wire(asyncio.Protocol):
    """Sends calls and gives each reply to whoever waits for it, in order."""

    early = EARLY

    def __init__(self, timeout: float = CALL_SECONDS) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = Reader()
        self._waiting: deque[Sequence[Future]] = deque()  # for each reply that will come, whom it is for
        self._leaving: list[tuple[Arguments, Future]] = []
        self._timeout = timeout
        self._watch: asyncio.TimerHandle | None = None
        self._answered = 0
        self._owner: asyncio.StreamWriter | None = None
        self._transport: asyncio.Transport | None = None
        self._retired = False
        self.alive = False
        self.writes = 0

    def adopt(self, writer: asyncio.StreamWriter) -> None:
        """Take over a connection that is ready for use; its writer would close it if it were let go."""
        self._owner, self.alive = writer, True
        self._transport = transport = cast("asyncio.Transport", writer.transport)
        transport.set_protocol(self)
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in {socket.AF_INET, socket.AF_INET6}:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(self, arguments: Arguments) -> Future:
        """Send one call; its reply may be an error of the server."""
        future: Future = self._loop.create_future()
        if not self.alive:
            future.set_exception(NotAsked("the connection is gone; nothing was asked"))
            return future
        if not self._leaving:
            self._loop.call_soon(self._flush)
        self._leaving.append((arguments, future))
        if len(self._leaving) == self.early and not self._waiting:
            self._flush()
        if self._watch is None:
            self._watch = self._loop.call_later(self._timeout, self._look, self._answered)
        return future

    def _flush(self) -> None:
        if self._transport is None or not self._leaving:
            return
        leaving, self._leaving = self._leaving, []
        out: list[bytes] = []
        for calls, futures in grouped(leaving):
            out.append(pack_command(calls[0] if len(calls) == 1 else together(calls)))
            self._waiting.append(futures)
        self._transport.write(b"".join(out))
        self.writes += 1

    def _look(self, answered: int) -> None:
        """Give the connection up when nothing was answered since the last look although somebody waits."""
        self._watch = None
        if not self._waiting and not self._leaving:
            return
        if answered == self._answered:
            self.abort(f"no answer for {self._timeout:g} s")
        else:
            self._watch = self._loop.call_later(self._timeout, self._look, self._answered)

    def data_received(self, data: bytes) -> None:
        """Hand out replies."""
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not False:
                self._answered += 1
                self.on_reply(reply)
        except ProtocolError as error:
            self.abort(f"the server does not speak the protocol: {error}")

    def on_reply(self, reply: Any) -> None:
        """Give a reply to those who wait longest."""
        if not self._waiting:  # an error that the server tells before it closes the connection
            self.abort(f"the server said something unasked: {reply}")
            return
        futures = self._waiting.popleft()
        if len(futures) == 1:
            _give(futures[0], reply)
        elif isinstance(reply, list):
            for future, part in zip(futures, reply, strict=True):
                _give(future, part)
        else:  # an error: of all of them
            for future in futures:
                _give(future, reply)
        if self._retired and not self._waiting and not self._leaving:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits that the answer is lost."""
        self._give_up(str(exc) if exc else "the server closed the connection")

    def abort(self, why: str) -> None:
        """Drop the connection."""
        if self._transport is not None:
            self._transport.abort()
        self._give_up(why)

    def retire(self) -> None:
        """Close when everything that was asked is answered; nobody asks anything more."""
        self._retired = True
        if not self._waiting and not self._leaving:
            self.close()

    def close(self) -> None:
        """Send what was accepted, then close."""
        self._flush()
        self.alive = False
        if self._watch is not None:
            self._watch.cancel()
        if self._transport is not None:
            self._transport.close()

    def _give_up(self, why: str) -> None:
        self.alive = False
        self._owner = None
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        lost = [future for futures in self._waiting for future in futures]
        lost += [future for _, future in self._leaving]
        self._waiting, self._leaving = deque(), []
        for future in lost:
            if not future.done():
                future.set_exception(Unreachable(f"{why}; what was asked may have been done"))


def _give(future: Future, reply: Any) -> None:
    if not future.done():
        future.set_result(reply)


async def dial(pool: ConnectionPool, wire: Wire, where: str) -> None:
    """Connect with the client library, which knows addresses, TLS and passwords, and hand the connection over."""
    try:
        connection: AbstractConnection = pool.make_connection()  # type: ignore[no-untyped-call]
    except TypeError as error:  # it names the option that nobody knows
        raise StoreUnusable(f"{where}: {error}") from error
    try:
        async with asyncio.timeout(CONNECT_SECONDS):  # the library's own limit ends with TCP
            await connection.connect()  # type: ignore[no-untyped-call]
    except BaseException as error:
        await connection.disconnect(nowait=True)
        if not isinstance(error, Exception):
            raise
        raise of_connecting(error, where) from error
    writer: asyncio.StreamWriter | None = connection._writer  # noqa: SLF001 - it has no public name
    assert writer is not None
    connection._writer = connection._reader = None  # noqa: SLF001 - it is not the library's any more
    wire.adopt(writer)


def pool_of(url: str) -> ConnectionPool:
    """Read a URL as the client library does; every connection speaks RESP2, and TLS means that the name is checked."""
    options: dict[str, Any] = {}
    database = urlsplit(url).path.removeprefix("/")
    if database and not database.isdecimal():  # the library would take the first one
        raise StoreUnusable(f"{without_password(url)} names no database: '{database}' is not a number")
    if url.startswith("valkeys://"):
        unchecked = "ssl_cert_reqs=none" in url
        options["ssl_check_hostname"] = not unchecked
    try:
        return ConnectionPool.from_url(
            url,
            protocol=2,
            socket_connect_timeout=CONNECT_SECONDS,
            socket_keepalive=True,
            client_name="flowfabric",
            **options,
        )
    except (ValueError, ValkeyError) as error:
        raise StoreUnusable(f"{without_password(url)} is no address of a server: {error}") from None
