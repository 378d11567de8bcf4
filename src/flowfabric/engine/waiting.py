"""Waiting for work, for frames and for ends: woken by events, with a look now and then as the safety net."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from flowfabric.model.errors import FlowFabricError
from flowfabric.model.operations.claim import Claim, Claimed
from flowfabric.model.operations.lease import Release
from flowfabric.model.operations.read import GetExecution
from flowfabric.model.operations.stream import StreamPage, TailStream
from flowfabric.model.records import Execution
from flowfabric.model.state import Phase
from flowfabric.storage.base import Commands, waits_remotely

Look = Callable[[Commands, Claim], Awaitable[Claimed]]
LOOK_SECONDS: Final = 5.0
"""How often a waiter looks although nothing woke it."""

log = logging.getLogger("flowfabric.engine")


class _Deadline:
    """How much of a wait is left."""

    def __init__(self, wait_ms: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + wait_ms / 1000

    def left(self) -> float:
        return max(0.0, self._end - self._loop.time())


async def claim_now(store: Commands, claim: Claim) -> Claimed:
    """Claim what there is. A caller that goes away leaves no lease behind."""
    claiming = asyncio.ensure_future(store.apply(claim))
    try:
        return await asyncio.shield(claiming)
    except asyncio.CancelledError:
        giving_back = asyncio.ensure_future(_give_back(store, claiming))
        _BACKGROUND.add(giving_back)
        giving_back.add_done_callback(_BACKGROUND.discard)
        raise


async def claim_when_ready(store: Commands, claim: Claim, wait_ms: int = 0) -> Claimed:
    """Claim; when there is nothing, wait for something. A caller that goes away leaves no lease behind."""
    if wait_ms and waits_remotely(store):
        return await store.claim_within(claim, wait_ms)
    return await claim_by_looking(store, claim, wait_ms, claim_now)


async def claim_by_looking(store: Commands, claim: Claim, wait_ms: int, look: Look) -> Claimed:
    """Claim as `claim_when_ready` does; `look` is how one attempt is made."""
    if not wait_ms:
        return await look(store, claim)
    deadline = _Deadline(wait_ms)
    async with store.subscribe([f"lane:{lane}" for lane in claim.lanes]) as woken:
        while True:
            claimed = await look(store, claim)
            left = deadline.left()
            if claimed.tasks or not left:
                return claimed
            await woken.wait(min(left, LOOK_SECONDS))


_BACKGROUND: Final[set[asyncio.Future[None]]] = set()


async def _give_back(store: Commands, claiming: asyncio.Future[Claimed]) -> None:
    with contextlib.suppress(FlowFabricError):
        claimed = await claiming
        releases = [
            Release(execution_id=task.execution_id, fence=task.fence, reason="the claimer went away")
            for task in claimed.tasks
        ]
        if releases:
            await store.apply_many(releases)


async def tail_when_ready(store: Commands, question: TailStream, wait_ms: int = 0) -> StreamPage:
    """Read what follows a cursor; when there is nothing, wait for a frame or for the end of the stream."""
    if wait_ms and waits_remotely(store):
        return await store.tail_within(question, wait_ms)
    deadline = _Deadline(wait_ms)
    async with store.subscribe([f"execution:{question.execution_id}"]) as woken:
        while True:
            page = await store.read(question)
            left = deadline.left()
            if page.last or page.closed_at or not left:
                return page
            await woken.wait(min(left, LOOK_SECONDS))


async def wait_until_ended(store: Commands, execution_id: str, wait_ms: int = 0) -> Execution:
    """Return the execution when it has ended, or as it is when the time is over."""
    if wait_ms and waits_remotely(store):
        return await store.end_within(execution_id, wait_ms)
    deadline = _Deadline(wait_ms)
    async with store.subscribe([f"execution:{execution_id}"]) as woken:
        while True:
            run = await store.read(GetExecution(execution_id=execution_id))
            left = deadline.left()
            if run.lifecycle_phase is Phase.TERMINAL or not left:
                return run
            await woken.wait(min(left, LOOK_SECONDS))
