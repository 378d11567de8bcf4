"""Waiting in the server: long polls, one after the other until the time is over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from flowfabric.model.contracts.base import Fence
from flowfabric.model.contracts.lease import Claim, Release
from flowfabric.model.contracts.reads import GetExecution, ListLeases
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.state import Ownership
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
    """Release what a claim brought whose answer nobody took; it is recognised by its claim id."""
    claim_id = claim.claim_id or claim.mint
    with contextlib.suppress(FlowFabricError):
        held = await store.read(ListLeases(worker_instance_id=claim.worker_instance_id))
        runs = [await store.read(GetExecution(execution_id=each)) for each in held]
        releases: list[Any] = [
            Release(
                execution_id=run.execution_id, reason="the claimer went away",
                fence=Fence(run.current_lease_id, run.current_lease_epoch, run.current_attempt_id),
            )
            for run in runs
            if run.claim_id == claim_id and run.ownership_state is Ownership.LEASED
        ]  # fmt: skip
        if releases:
            await store.apply_many(releases)
