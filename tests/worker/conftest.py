"""Workers on every kind of store: a file, Valkey, and a server over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.stores import chosen
from support.working import Place, place_on


@pytest.fixture(params=chosen(("sqlite", "valkey", "http")))
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """A fresh store with its engine, in real time."""
    async with place_on(request.param, tmp_path) as opened:
        yield opened
