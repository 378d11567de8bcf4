"""Waiting for what a server in this process comes to, without guessing how long that takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from flowfabric.storage.base import Upkeep


async def until(condition: Callable[[], object]) -> None:
    """Let others run until something holds."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)


async def listening(store: Upkeep, topic: str, count: int = 1) -> None:
    """Wait until so many listen to a topic, and no more."""
    listeners = store.hub._listeners  # type: ignore[attr-defined] # every store in this process has one
    await until(lambda: len(listeners.get(topic, ())) == count)


async def next_millisecond(store: Upkeep) -> None:
    """Wait until the store's clock has moved on."""
    now = store.now()
    await until(lambda: store.now() > now)
