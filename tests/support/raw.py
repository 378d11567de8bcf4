"""Connections over which tests send whatever they like, to a server in this process with limits of its own."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

import pytest

from flowfabric.server.http import listener, transport
from flowfabric.server.http.transport import TransportLimits
from flowfabric.server.server import Server
from flowfabric.server.settings import Settings
from flowfabric.storage import open_store

HEALTH = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


class Line:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> Answer:
        async with asyncio.timeout(8):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            status = int(head.split(" ")[1])
            headers = {k.lower(): v for k, v in re.findall(r"^([^:\r\n]+): (.*?)\r$", head, re.MULTILINE)}
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return Answer(status, headers, json.loads(body) if body else None)

    async def ended(self) -> bool:
        """Whether the server says nothing more."""
        async with asyncio.timeout(8):
            return not await self.reader.read()


class Door:
    """Opens connections to one server."""

    def __init__(self, server: Server, address: tuple[str, int], stack: AsyncExitStack) -> None:
        self.server = server
        self._address = address
        self._stack = stack

    async def __call__(self, *, window: int = 0) -> Line:
        """Open one; with a window, little of what is not read hides in the system."""
        made = socket.socket()
        made.setblocking(False)
        if window:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        await asyncio.get_running_loop().sock_connect(made, self._address)
        limit = {"limit": window} if window else {}
        reader, writer = await asyncio.open_connection(sock=made, **limit)  # type: ignore[arg-type]
        self._stack.callback(writer.close)
        return Line(reader, writer)


RawServe = Callable[..., Awaitable[Door]]


@asynccontextmanager
async def raw_servers(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RawServe]:
    """Start servers with their own limits; what starts one returns what opens connections to it."""
    monkeypatch.setattr(transport, "SWEEP_SECONDS", 0.05)
    monkeypatch.setattr(transport, "LINGER_SECONDS", 0.5)
    async with AsyncExitStack() as stack:

        async def start(*, keep_alive: float = 75, settings: Settings | None = None, **limits: Any) -> Door:
            monkeypatch.setattr(listener, "KEEP_ALIVE_SECONDS", keep_alive)
            monkeypatch.setattr(
                listener, "TransportLimits", lambda **given: TransportLimits(**{**given, **limits})
            )
            chosen = settings or Settings(listen=("127.0.0.1", 0))
            store = await open_store(":memory:")
            stack.push_async_callback(store.close)
            server = await Server.start(chosen, store=store)
            stack.push_async_callback(server.shutdown)
            sockets = listener.bind(chosen)
            address = sockets[0].getsockname()
            ready = asyncio.Event()
            serving = asyncio.create_task(server.serve(sockets, ready.set))

            async def end() -> None:
                server.stop()
                await serving

            stack.push_async_callback(end)
            await ready.wait()

            return Door(server, address, stack)

        yield start
