"""Turn the refusals that mean a lost lease into the exception that stops the handler."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from flowfabric.model.errors import FlowFabricError
from flowfabric.worker.faults import LeaseLost, is_loss

R = TypeVar("R")


async def stop_if_lost(call: Awaitable[R]) -> R:
    """Await a store call; raise `LeaseLost` if it is refused because the lease is gone, else the refusal itself."""
    try:
        return await call
    except FlowFabricError as error:
        if is_loss(error):
            raise LeaseLost(str(error)) from error
        raise
