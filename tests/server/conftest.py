"""Servers for tests, on every store that a server can stand on.

A module that looks at HTTP alone says `pytestmark = pytest.mark.one_store`: what it tests is decided before any store
is asked, so it runs once, on the first store. What is marked `every_store` runs on a cluster, too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from flowfabric.server.settings import Settings
from flowfabric.storage import open_store
from flowfabric.storage.base import Upkeep
from support.server import Api, running
from support.serving import BACKENDS, Backend, Serve, backends


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" in metafunc.fixturenames:
        names = backends(everywhere=any(metafunc.definition.iter_markers("every_store")))
        once = any(metafunc.definition.iter_markers("one_store"))
        metafunc.parametrize("backend", names[:1] if once else names, indirect=True)


@pytest.fixture
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    """Where stores of this test lie, empty at first."""
    async with BACKENDS[request.param](tmp_path) as made:
        yield made


@pytest.fixture
async def serve(backend: Backend) -> AsyncIterator[Serve]:
    """Start servers: `api = await serve(token="t", api_token="t")`; each has a store of its own unless one is given."""
    async with AsyncExitStack() as stack:
        count = 0

        async def start(
            *,
            store: Upkeep | None = None,
            token: str = "",
            api_token: str = "",
            settings: Settings | None = None,
            **options: Any,
        ) -> Api:
            nonlocal count
            count += 1
            url = backend.url(count)
            if store is None:
                store = await open_store(url)
                stack.push_async_callback(store.close)
            told = replace(settings or Settings(api_token=api_token), store=url)
            return await stack.enter_async_context(running(store, token=token, settings=told, **options))

        yield start


@pytest.fixture
async def api(serve: Serve) -> Api:
    """A server without a token, and its client."""
    return await serve()
