"""Claiming work."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from msgspec.structs import replace

from flowfabric.engine import claim_by_looking, claim_now
from flowfabric.model.operations.claim import Claim, Claimed, Task
from flowfabric.model.operations.lease import Release
from flowfabric.server.http.call import Response, ServerCall, ServerStopping, encode
from flowfabric.server.http.routing import serves
from flowfabric.storage.base import Commands
from flowfabric.wire.claim import CLAIM, ClaimBody, TaskView
from flowfabric.wire.errors import HttpError, bad_request

MAX_WAIT_MS: Final = 30_000
FEW_TASKS: Final = 16
"""A claim of more tasks than these needs a permit."""
PERMIT_SECONDS: Final = 1.0
"""How long a claim waits for its permit at least."""


@serves(CLAIM)
async def take_tasks(call: ServerCall) -> Response:
    """Claim work; when there is none, wait for some."""
    asked: ClaimBody = call.body
    if not 0 <= asked.wait_ms <= MAX_WAIT_MS:
        raise bad_request(f"wait_ms: must be an integer from 0 to {MAX_WAIT_MS}", field="wait_ms")
    claim: Claim = CLAIM.read_command(call, asked, actor="")
    tasks = list((await _claim(call, claim, asked.wait_ms)).tasks)
    claimed = Claimed(tuple(replace(task, input=b"", resume_signals=(), steps=()) for task in tasks))
    parts = _parts(tasks)
    try:
        call.check_room(sum(map(len, parts)))
    except HttpError:
        if not asked.claim_id:  # else a repeat gets the same
            await _give_back(call, claimed)
        raise
    call.server.tally.note(claim, claimed)
    return Response(parts=parts)


def _parts(tasks: list[Task]) -> list[bytes]:
    """Write the answer part by part, and let go of each task as it is written: together they may be large."""
    parts = [b'{"tasks":[']
    tasks.reverse()
    while tasks:
        parts.append(encode(TaskView.of(tasks.pop())))
        parts.append(b"," if tasks else b"]}")
    return parts if len(parts) > 1 else [b'{"tasks":[]}']


async def _give_back(call: ServerCall, claimed: Claimed) -> None:
    await call.apply_many([Release(execution_id=t.execution_id, fence=t.fence) for t in claimed.tasks])


async def _claim(call: ServerCall, claim: Claim, wait_ms: int) -> Claimed:
    look = claim_now
    if claim.max_tasks > FEW_TASKS:
        end = asyncio.get_running_loop().time() + max(wait_ms / 1000, PERMIT_SECONDS)
        look = partial(_claim_many, call, end)
    if not wait_ms:
        return await look(call.store, claim)
    try:
        return await call.while_connected(
            claim_by_looking(call.store, claim, wait_ms, look), partial(_give_back, call)
        )
    except ServerStopping:
        return Claimed(())


async def _claim_many(call: ServerCall, end: float, store: Commands, claim: Claim) -> Claimed:
    """Claim with a permit, which is held until the answer has left; whoever waits for work holds none."""
    left = max(end - asyncio.get_running_loop().time(), PERMIT_SECONDS)
    async with AsyncExitStack() as held:
        await held.enter_async_context(call.server.large_claims.hold(left))
        claimed = await claim_now(store, claim)
        if claimed.tasks:
            call.held.push_async_exit(held.pop_all())
        return claimed
