"""Asking a store that may be away for a while: what only reads, or may be repeated, is asked again."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from flowfabric.model.errors import FlowFabricError
from flowfabric.worker.outbox import RetryPause, is_transient

R = TypeVar("R")
LONGEST_PAUSE: Final = 5.0

log = logging.getLogger("flowfabric.app")


async def retry_while_away(ask: Callable[[], Awaitable[R]], within: float = math.inf) -> R:
    """Ask until there is an answer, or for some seconds; only faults that may pass are waited for."""
    clock = asyncio.get_running_loop().time
    end = clock() + within
    backoff = RetryPause(longest=LONGEST_PAUSE)
    while True:
        try:
            return await ask()
        except FlowFabricError as error:
            if not is_transient(error) or clock() >= end:
                raise
            log.warning("the store is away, trying again: %s", error)
        await backoff.pause()
