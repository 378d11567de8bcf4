"""One suite, every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.clock import ManualClock
from support.driver import Driver
from support.over_http import DIFFERENT, over_http
from support.stores import GENERAL, STORES, chosen, half

SIDES = STORES | GENERAL | {"http": over_http}
"""Every store, those with fast paths also without them, and one behind a server."""


@pytest.fixture(params=chosen(SIDES))
def store_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def ff(store_name: str, tmp_path: Path) -> AsyncIterator[Driver]:
    """A fresh store behind a driver, with a clock that the test moves."""
    clock = ManualClock()
    async with SIDES[store_name](tmp_path, clock, half) as store:
        yield Driver(store, clock)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is otherwise over HTTP runs too, and must be otherwise."""
    for item in items:
        if item.name in DIFFERENT:
            item.add_marker(pytest.mark.xfail(reason=DIFFERENT[item.name], strict=True))
