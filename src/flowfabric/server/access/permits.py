"""Permits for costly calls: taken, or the call is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from flowfabric.wire.errors import HttpError


class Permits:
    """So many calls of one kind at a time, and no queue."""

    def __init__(self, pool: str, most: int) -> None:
        self._pool = pool
        self.most = most
        self.taken = 0

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold a permit; refuse the call when none is left."""
        if self.taken >= self.most:
            raise _none_left(self._pool, self.most)
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1


class WaitedPermits:
    """So many calls of one kind at a time; others wait for a while, in order."""

    def __init__(self, pool: str, most: int) -> None:
        self._pool = pool
        self._most = most
        self._free = asyncio.Semaphore(most)

    @asynccontextmanager
    async def hold(self, seconds: float) -> AsyncIterator[None]:
        """Hold a permit; refuse the call when there is none within so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._free.acquire()
        except TimeoutError as error:
            raise _none_left(self._pool, self._most) from error
        try:
            yield
        finally:
            self._free.release()


def _none_left(pool: str, most: int) -> HttpError:
    return HttpError(
        429,
        f"too many concurrent {pool} calls (server max: {most}); retry with backoff",
        "resource_exhausted",
        kind="resource_exhausted",
        retryable=True,
    )
