"""What a server costs its store while nothing happens."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from support.serving import Serve
from support.sse import listen
from support.work import create, path

PER_SECOND = 20
SECONDS = 4.0


class Statements:
    """Counts what any connection to any file runs, and says when it was too much."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.too_many = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._connect = sqlite3.connect

    def connect(self, *arguments: Any, **options: Any) -> sqlite3.Connection:
        opened: sqlite3.Connection = self._connect(*arguments, **options)
        opened.set_trace_callback(self._run)
        return opened

    def _run(self, statement: str) -> None:
        self.seen[statement.split("(", maxsplit=1)[0][:60]] += 1
        if self.seen.total() >= PER_SECOND * SECONDS:
            self._loop.call_soon_threadsafe(self.too_many.set)

    async def rate(self) -> float:
        """Count for some seconds, or until the count is too high for all of them."""
        self.seen.clear()
        self.too_many.clear()
        begin = time.monotonic()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.too_many.wait(), SECONDS)
        return self.seen.total() / (time.monotonic() - begin)


async def test_an_idle_server_hardly_asks_its_store(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    statements = Statements()
    monkeypatch.setattr(sqlite3, "connect", statements.connect)
    api = await serve()
    assert api.store.partitions.flow == 256
    execution_id = await create(api, delay_until=4_000_000_000_000)
    assert statements.seen
    body = {"worker_instance_id": "w-1", "lanes": ["default"], "wait_ms": 30_000}
    async with listen(api, path(execution_id, "events")) as one, listen(api, "/v1/feed"):
        await one.take(1)
        waiting = asyncio.ensure_future(api.post("/v1/workers/w/tasks", body))
        assert await statements.rate() < PER_SECOND, statements.seen
        assert not waiting.done()
        waiting.cancel()
