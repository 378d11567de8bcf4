"""Retrying calls while the store is unreachable; only for reads, and for commands that may be repeated."""

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
    """Repeat a call until it is answered, or for `within` seconds; errors that are not transient are raised at once."""
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
