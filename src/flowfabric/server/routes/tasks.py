"""Work over HTTP: claiming it, and keeping many leases alive at once."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from flowfabric.engine import claim_by_looking, claim_now
from flowfabric.model import checks
from flowfabric.model.command import Fence
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.limits import DEFAULT_LEASE_TTL_MS, MAX_LEASE_TTL_MS, MIN_LEASE_TTL_MS
from flowfabric.model.operations.claim import Claim, Claimed, Task
from flowfabric.model.operations.lease import Release, Renew, Renewed
from flowfabric.model.views import StepView
from flowfabric.server import render
from flowfabric.server.call import Answer, Call, Stopping, encode
from flowfabric.server.errors import HttpError, bad_request, refused_item
from flowfabric.server.forms import Integer, fence_of
from flowfabric.server.roles import Need
from flowfabric.server.routing import endpoint
from flowfabric.storage.base import Commands
from flowfabric.storage.minting import new_uuid

MAX_WAIT_MS: Final = 30_000
MAX_RENEWALS: Final = 256
FEW_TASKS: Final = 16
"""A claim of more tasks than these needs a permit."""
PERMIT_SECONDS: Final = 1.0
"""How long a claim waits for its permit at least."""


class TaskRequest(Struct, frozen=True):
    """What a worker can run, how much of it at once, and how long it waits for it."""

    worker_instance_id: str
    lanes: tuple[str, ...]
    kinds: tuple[str, ...] | None = None
    capabilities: tuple[str, ...] = ()
    max_tasks: Integer = 1
    lease_ttl_ms: Integer = DEFAULT_LEASE_TTL_MS
    wait_ms: Integer = 0
    claim_id: str | None = None
    """A repeat with the same id, while those leases live, gets the same tasks."""
    namespace: str | None = None
    """Only work of this namespace."""


@endpoint("POST", "/v1/workers/{worker_id}/tasks", Need.WORK, body=TaskRequest, bound=True)
async def take_tasks(call: Call) -> Answer:
    """Claim work; when there is none, wait for some."""
    asked: TaskRequest = call.body
    if not 0 <= asked.wait_ms <= MAX_WAIT_MS:
        raise bad_request(f"wait_ms: must be an integer from 0 to {MAX_WAIT_MS}", field="wait_ms")
    bound = call.principal.namespace
    claim = Claim(
        worker_id=call.path["worker_id"], worker_instance_id=asked.worker_instance_id, lanes=asked.lanes,
        mint=new_uuid(), kinds=asked.kinds, capabilities=asked.capabilities, max_tasks=asked.max_tasks,
        namespace=call.namespace(asked.namespace) if bound or asked.namespace is not None else "",
        lease_ttl_ms=asked.lease_ttl_ms, claim_id=asked.claim_id or "",
    )  # fmt: skip
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
    return Answer(parts=parts)


def _parts(tasks: list[Task]) -> list[bytes]:
    """Write the answer part by part, and let go of each task as it is written: together they may be large."""
    parts = [b'{"tasks":[']
    tasks.reverse()
    while tasks:
        parts.append(encode(task_shape(tasks.pop())))
        parts.append(b"," if tasks else b"]}")
    return parts if len(parts) > 1 else [b'{"tasks":[]}']


async def _give_back(call: Call, claimed: Claimed) -> None:
    await call.apply_many([Release(execution_id=t.execution_id, fence=t.fence) for t in claimed.tasks])


async def _claim(call: Call, claim: Claim, wait_ms: int) -> Claimed:
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
    except Stopping:
        return Claimed(())


async def _claim_many(call: Call, end: float, store: Commands, claim: Claim) -> Claimed:
    """Claim with a permit, which is held until the answer has left; whoever waits for work holds none."""
    left = max(end - asyncio.get_running_loop().time(), PERMIT_SECONDS)
    async with AsyncExitStack() as held:
        await held.enter_async_context(call.server.large_claims.hold(left))
        claimed = await claim_now(store, claim)
        if claimed.tasks:
            call.held.push_async_exit(held.pop_all())
        return claimed


def task_shape(task: Task) -> dict[str, Any]:
    """Show a task with all that its worker needs."""
    resume = task.resume
    return {
        "execution_id": task.execution_id,
        "execution_kind": task.execution_kind,
        "namespace": task.namespace,
        "lane_id": task.lane_id,
        "flow_id": task.flow_id or None,
        "priority": task.priority,
        "attempt_index": task.attempt_index,
        "attempt_id": task.attempt_id,
        "attempt_type": task.attempt_type,
        "fence": task.fence,
        "lease_expires_at": task.lease_expires_at,
        "attempt_deadline_at": task.attempt_deadline_at or None,
        "execution_deadline_at": task.execution_deadline_at or None,
        **render.json_or_base64("input", task.input, task.payload_encoding),
        "payload_encoding": task.payload_encoding or None,
        "tags": dict(task.tags),
        "policy": render.embedded(task.policy) if task.policy else None,
        "resume": resume
        and {
            "suspension_id": resume.suspension_id,
            "step_name": resume.step_name or None,
            "reason": resume.reason,
        },
        "resume_signals": render.signals(task.resume_signals),
        "steps": {step.name: step_shape(step) for step in task.steps},
        "step_count": task.step_count,
    }


def step_shape(step: StepView) -> dict[str, Any]:
    """Show a stored step without its name."""
    return {
        **render.json_or_base64("result", step.result, step.encoding),
        "call_index": step.call_index,
        "at": step.at,
        "encoding": step.encoding,
    }


class HeldLease(Struct, frozen=True):
    """One lease that is to be held longer; an ill-formed one is refused alone, not with its neighbours."""

    execution_id: str
    lease_id: str | None = None
    lease_epoch: int | None = None
    attempt_id: str | None = None

    def fence(self) -> Fence:
        """Return what the engine takes."""
        return fence_of(self.lease_id, self.lease_epoch, self.attempt_id)


class Renewal(Struct, frozen=True):
    """Leases that are to be held longer."""

    fences: tuple[HeldLease, ...]
    lease_ttl_ms: Integer = DEFAULT_LEASE_TTL_MS


@endpoint("POST", "/v1/workers/{worker_id}/renew", Need.WORK, body=Renewal, bound=True)
async def renew_many(call: Call) -> Answer:
    """Hold many leases longer; each is answered for itself, in order."""
    held: tuple[HeldLease, ...] = call.body.fences
    if len(held) > MAX_RENEWALS:
        raise bad_request(f"fences: send at most {MAX_RENEWALS}", field="fences")
    checks.worker("worker_id", call.path["worker_id"])
    checks.integer("lease_ttl_ms", call.body.lease_ttl_ms, MIN_LEASE_TTL_MS, MAX_LEASE_TTL_MS)
    hidden = [await _hidden(call, lease) for lease in held]
    renewals = [
        Renew(execution_id=lease.execution_id, fence=lease.fence(), lease_ttl_ms=call.body.lease_ttl_ms)
        for lease, refusal in zip(held, hidden, strict=True)
        if refusal is None
    ]
    replies = iter(await call.apply_many(renewals))
    results = [
        {"execution_id": lease.execution_id} | _renewed(next(replies) if refusal is None else refusal)
        for lease, refusal in zip(held, hidden, strict=True)
    ]
    return Answer({"results": results})


async def _hidden(call: Call, lease: HeldLease) -> FlowFabricError | None:
    try:
        await call.visible(lease.execution_id)
    except FlowFabricError as error:
        return error
    return None


def _renewed(reply: Renewed | FlowFabricError) -> dict[str, Any]:
    return {"expires_at": reply.expires_at} if isinstance(reply, Renewed) else refused_item(reply)
