"""The store of the guides' snippets: a SQLite file of each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from flowfabric import FlowFabric


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[FlowFabric]:
    async with FlowFabric(str(tmp_path / "work.db")) as app:
        yield app
