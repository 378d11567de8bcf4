"""Engine tests run on every store that the suites know; over HTTP the engine runs in the server."""

from __future__ import annotations

import pytest

from conformance.conftest import ff
from support.stores import STORES, chosen

__all__ = ["ff", "store_name"]


@pytest.fixture(params=chosen(STORES))
def store_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)
