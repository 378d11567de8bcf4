"""A small TCP proxy that stands for the address of a service: it can lead elsewhere, speak TLS, and cut."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

CHUNK = 65_536


class Proxy:
    """Passes bytes on between whoever connects and the port that it leads to."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.port = 0
        self.cuts = 0
        """How many connections were cut for their length."""
        self.allowance: Callable[[], tuple[float, float]] = lambda: (float("inf"), float("inf"))
        """For a new connection: how many bytes of requests and of replies pass before it is cut."""
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        asked, answered = self.allowance()
        try:
            theirs, ours = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            self._tasks.discard(task)
            return
        self._writers |= {writer, ours}
        try:
            passing = [
                asyncio.ensure_future(self._pass(reader, ours, asked)),
                asyncio.ensure_future(self._pass(theirs, writer, answered)),
            ]
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
            for each in passing:
                each.cancel()
            await asyncio.wait(passing)
        finally:
            for end in (writer, ours):
                self._writers.discard(end)
                end.close()
            self._tasks.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: float) -> None:
        try:
            while data := await reader.read(CHUNK):
                if len(data) >= left:
                    writer.write(data[: int(left)])
                    await writer.drain()
                    self.cuts += 1
                    return
                left -= len(data)
                writer.write(data)
                await writer.drain()
        except OSError:
            return

    def cut(self) -> None:
        """Cut every connection that there is."""
        for writer in self._writers:
            writer.transport.abort()

    async def end(self) -> None:
        """Let nothing be left."""
        while self._tasks:
            self.cut()
            await asyncio.wait(self._tasks, timeout=0.1)


@asynccontextmanager
async def proxy(port: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[Proxy]:
    """A proxy before a port of this machine."""
    between = Proxy(port)
    server = await asyncio.start_server(between.serve, "127.0.0.1", 0, ssl=tls)
    between.port = server.sockets[0].getsockname()[1]
    try:
        yield between
    finally:
        server.close()
        await between.end()
