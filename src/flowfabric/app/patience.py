"""Asking a store that may be away for a while: what only reads, or may be repeated, is asked again."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from flowfabric.model.errors import Infrastructure

R = TypeVar("R")
FIRST_SECONDS: Final = 0.05
MOST_SECONDS: Final = 5.0

log = logging.getLogger("flowfabric.app")


async def patiently(ask: Callable[[], Awaitable[R]], within: float = math.inf) -> R:
    """Ask until there is an answer, or for some seconds; only faults that may pass are waited for."""
    clock = asyncio.get_running_loop().time
    end = clock() + within
    pause = FIRST_SECONDS
    while True:
        try:
            return await ask()
        except Infrastructure as error:
            if not error.retryable or clock() + pause > end:
                raise
            log.warning("the store is away, trying again in %.2f s: %s", pause, error)
        await asyncio.sleep(pause)
        pause = min(pause * 2, MOST_SECONDS)
