"""Stores for commands."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from support.commands import Ff
from support.serving import BACKENDS, Backend, backends
from support.stores import chosen
from support.working import Place, place_on


@pytest.fixture(params=backends())
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Where the stores of a test lie, on every store that several processes share."""

    async def make() -> Backend:
        async with BACKENDS[request.param](tmp_path) as made:
            return made

    return asyncio.run(make())


@pytest.fixture(params=chosen(("sqlite", "valkey", "http")))
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """A fresh store with its engine, in real time."""
    async with place_on(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture
def ff(place: Place) -> Ff:
    """`ff` in a process of its own, for which this store is the default."""
    return Ff(place.url)


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Let the programs that a test starts hear SIGINT; a run in the background of a script ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
