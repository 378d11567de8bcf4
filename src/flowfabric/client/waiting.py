"""Waiting in the server: long polls, one after the other until the time is over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from flowfabric.model.errors import FlowFabricError
from flowfabric.model.operations.claim import Claim
from flowfabric.model.operations.lease import Release
from flowfabric.storage.base import Commands

R = TypeVar("R")
LONGEST_WAIT_MS: Final = 30_000
"""What the server waits at most in one call."""


async def within(wait_ms: int, ask: Callable[[int], Awaitable[R]], enough: Callable[[R], bool]) -> R:
    """Ask again until there is enough or the time is over; the server waits, a part of the time in each call."""
    loop = asyncio.get_running_loop()
    end = loop.time() + wait_ms / 1000
    while True:
        left = max(0, round((end - loop.time()) * 1000))
        found = await ask(min(left, LONGEST_WAIT_MS))
        if enough(found) or left <= LONGEST_WAIT_MS:
            return found


async def give_back(store: Commands, claim: Claim) -> None:
    """Release what a claim brought whose answer nobody took: a repeat gets it again, and nothing new of no kind."""
    repeat = replace(claim, claim_id=claim.claim_id or claim.mint, kinds=())
    with contextlib.suppress(FlowFabricError):
        claimed = await store.apply(repeat)
        releases: list[Any] = [
            Release(execution_id=task.execution_id, fence=task.fence, reason="the claimer went away")
            for task in claimed.tasks
        ]
        if releases:
            await store.apply_many(releases)
