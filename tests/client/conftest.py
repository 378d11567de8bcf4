"""Servers to break, and clients that must not mind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.clock import ManualClock
from support.driver import Driver
from support.over_http import OverHttp, over_http
from support.stores import half


@pytest.fixture
async def ff(tmp_path: Path) -> AsyncIterator[Driver]:
    """A fresh store behind a server, used over HTTP."""
    clock = ManualClock()
    async with over_http(tmp_path, clock, half) as store:
        yield Driver(store, clock)


@pytest.fixture
def side(ff: Driver) -> OverHttp:
    """The two sides: the client, and the store behind."""
    assert isinstance(ff.store, OverHttp)
    return ff.store
