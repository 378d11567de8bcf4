"""One suite, every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.clock import ManualClock
from support.driver import Driver
from support.stores import STORES, half


@pytest.fixture(params=sorted(STORES))
def store_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def ff(store_name: str, tmp_path: Path) -> AsyncIterator[Driver]:
    """A fresh store behind a driver, with a clock that the test moves."""
    clock = ManualClock()
    async with STORES[store_name](tmp_path, clock, half) as store:
        yield Driver(store, clock)
