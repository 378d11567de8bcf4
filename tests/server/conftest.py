"""Servers for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from flowfabric.storage import open_store
from flowfabric.storage.base import Upkeep
from support.server import Api, running

Serve = Callable[..., Awaitable[Api]]


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Serve]:
    """Start servers: `api = await serve(token="t", api_token="t")`; each has a store of its own unless one is given."""
    async with AsyncExitStack() as stack:
        count = 0

        async def start(*, store: Upkeep | None = None, token: str = "", **options: Any) -> Api:
            nonlocal count
            count += 1
            if store is None:
                store = await open_store(str(tmp_path / f"server{count}.db"))
                stack.push_async_callback(store.close)
            return await stack.enter_async_context(running(store, token=token, **options))

        yield start


@pytest.fixture
async def api(serve: Serve) -> Api:
    """A server without a token, and its client."""
    return await serve()
