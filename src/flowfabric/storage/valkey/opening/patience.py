"""Waiting for a server that is on its way up: being restarted, reading its data, or not reachable yet."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from flowfabric.model.errors import StoreBusy, Unreachable

FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 5.0
T = TypeVar("T")

log = logging.getLogger("flowfabric.valkey")


class Patience:
    """Tries again for some seconds; what waiting cannot mend is raised at once."""

    def __init__(
        self,
        seconds: float = 0.0,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._sleep = sleep

    async def keep(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try until it succeeds, and raise the last error when the time is over."""
        end = self._clock() + self._seconds
        pause = FIRST_PAUSE
        while True:
            try:
                return await attempt()
            except (Unreachable, StoreBusy) as error:
                left = end - self._clock()
                if left <= 0:
                    raise _given_up(error, self._seconds) from error
                if pause == FIRST_PAUSE:
                    log.warning("the store is not ready, trying again for up to %.0f s: %s", left, error)
            await self._sleep(min(pause, left))
            pause = min(pause * 2, LONGEST_PAUSE)


def _given_up(error: Unreachable | StoreBusy, seconds: float) -> Unreachable | StoreBusy:
    return type(error)(f"{error.text} (tried for {seconds:.0f} s)") if seconds else error
