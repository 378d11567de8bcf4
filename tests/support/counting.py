"""How often a store is asked: statements that SQLite runs, calls that reach Valkey, whoever sends them."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

from support.serving import Backend

CALLED = re.compile(r'^\+[\d.]+ \[\d+ ([^\]]+)\] "([^"]*)"')
"""A line of the server's monitor: who, and what. What functions do inside the server is done by `lua`."""
LONGEST = 16 * 2**20
"""Of such a line: the library is one."""


class Asked:
    """What a store was asked, and whether it was too much."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self._limit = 0.0
        self._too_much = asyncio.Event()

    def note(self, what: str) -> None:
        """Count one thing."""
        self.seen[what] += 1
        if self._limit and self.seen.total() >= self._limit:
            self._too_much.set()

    async def rate(self, seconds: float, limit: float) -> float:
        """Count for some seconds, or until the count is too high for all of them; per second."""
        self.seen.clear()
        self._too_much.clear()
        self._limit = limit * seconds
        begin = time.monotonic()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._too_much.wait(), seconds)
        return self.seen.total() / (time.monotonic() - begin)


@asynccontextmanager
async def counting(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Asked]:
    """Count from here on; stores that are opened later are seen."""
    asked = Asked()
    if backend.name == "sqlite":
        _trace(asked, monkeypatch)
        yield asked
        return
    async with AsyncExitStack() as stack:
        for address in urlsplit(backend.url()).netloc.split(","):
            await stack.enter_async_context(_monitoring(address, asked))
        yield asked


@asynccontextmanager
async def _monitoring(address: str, asked: Asked) -> AsyncIterator[None]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=LONGEST)
    writer.write(b"MONITOR\r\n")
    assert await reader.readline() == b"+OK\r\n"
    following = asyncio.create_task(_follow(reader, asked))
    try:
        yield
        assert not following.done()
    finally:
        following.cancel()
        writer.close()


async def _follow(reader: asyncio.StreamReader, asked: Asked) -> None:
    while line := await reader.readline():
        called = CALLED.match(line.decode("latin-1"))
        if called and called[1] != "lua":
            asked.note(called[2])


def _trace(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    connect = sqlite3.connect

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened: sqlite3.Connection = connect(*arguments, **options)
        opened.set_trace_callback(
            lambda statement: loop.call_soon_threadsafe(asked.note, statement.split("(", 1)[0][:60])
        )
        return opened

    monkeypatch.setattr(sqlite3, "connect", traced)
