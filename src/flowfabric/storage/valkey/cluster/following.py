"""Following lanes: a process that claims from a lane of a cluster listens to it, so that its hints stay fresh."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Final

from flowfabric.storage.valkey.cluster.hints import Hints
from flowfabric.storage.valkey.connection.wakeups import Wakeups

IDLE_SECONDS: Final = 60.0
"""How long a lane that nobody claims from any more is followed."""


class Following:
    """The lanes that this process follows."""

    def __init__(self, wakeups: Wakeups, hints: Hints) -> None:
        self._wakeups = wakeups
        self._hints = hints
        self._lock = asyncio.Lock()
        self._followed: dict[str, AsyncExitStack] = {}
        self._used: dict[str, float] = {}

    async def follow(self, lanes: Iterable[str]) -> None:
        """Listen to lanes, from now on until nobody has asked for them for a while."""
        now = asyncio.get_running_loop().time()
        new = [lane for lane in lanes if lane not in self._followed]
        for lane in lanes:
            self._used[lane] = now
        if new:
            async with self._lock:
                for lane in new:
                    await self._begin(lane)
                for lane in [each for each in self._followed if self._used[each] < now - IDLE_SECONDS]:
                    await self._end(lane)

    async def _begin(self, lane: str) -> None:
        if lane in self._followed:
            return
        stack = AsyncExitStack()
        await stack.enter_async_context(self._wakeups.subscribe([f"lane:{lane}"]))
        self._followed[lane] = stack

    async def _end(self, lane: str) -> None:
        self._hints.forget(lane)
        del self._used[lane]
        await self._followed.pop(lane).aclose()

    async def close(self) -> None:
        """Stop following."""
        for lane in list(self._followed):
            await self._end(lane)
