"""The Python face on every kind of store: a file, Valkey, and a server over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from flowfabric.storage.base import Commands, Upkeep
from support.clock import ManualClock
from support.driver import Driver
from support.face import Face
from support.over_http import OverHttp, over_http
from support.stores import STORES, chosen, half

SIDES = {"sqlite": STORES["sqlite"], "valkey": STORES["valkey"], "http": over_http}


@pytest.fixture(params=chosen(SIDES))
async def face(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Face]:
    """A fresh store, as programs see it and as its engine does, with a clock that the test moves."""
    clock = ManualClock()
    async with SIDES[request.param](tmp_path, clock, half) as store:
        await Driver(store, clock).seed()
        yield Face(_seen_by_programs(store), store, clock)


def _seen_by_programs(store: Upkeep) -> Commands:
    return store.client if isinstance(store, OverHttp) else store
