"""Stores for commands."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.serving import BACKENDS, Backend, backends


@pytest.fixture(params=backends())
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Where the stores of a test lie, on every store that several processes share."""

    async def make() -> Backend:
        async with BACKENDS[request.param](tmp_path) as made:
            return made

    return asyncio.run(make())
