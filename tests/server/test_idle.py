"""What a server costs its store while nothing happens."""

from __future__ import annotations

import asyncio

import pytest

from support.counting import counting
from support.serving import Backend, Serve
from support.sse import listen
from support.until import until
from support.work import create, path

pytestmark = pytest.mark.every_store

PER_SECOND = 20
SECONDS = 4.0


async def test_an_idle_server_hardly_asks_its_store(
    serve: Serve, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with counting(backend, monkeypatch) as asked:
        api = await serve()
        assert api.store.partitions.flow == 256
        execution_id = await create(api, delay_until=4_000_000_000_000)
        await until(lambda: asked.seen)
        body = {"worker_instance_id": "w-1", "lanes": ["default"], "wait_ms": 30_000}
        async with listen(api, path(execution_id, "events")) as one, listen(api, "/v1/feed"):
            await one.take(1)
            waiting = asyncio.ensure_future(api.post("/v1/workers/w/tasks", body))
            assert await asked.rate(SECONDS, PER_SECOND) < PER_SECOND, asked.seen
            assert not waiting.done()
            waiting.cancel()
