"""Summarize in a few words what an execution does or waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from flowfabric.model.errors import NotFound
from flowfabric.model.operations.claim import lost_reason
from flowfabric.model.operations.read import Describe
from flowfabric.model.operations.worker_serving import NO_WORKER_FOR_KIND, Because
from flowfabric.model.records import Execution
from flowfabric.model.state import Blocking, Eligibility, Ownership, Phase, Public
from flowfabric.storage.base import Commands

MAX_QUEUES: Final = 20
"""The number of queues that one list explains."""
_INSTANCE_SUFFIX: Final = 6
Queue = tuple[str, str, str, tuple[str, ...]]
"""Namespace, lane, kind and required capabilities: whoever can take one execution of a queue can take all."""
_LOST: Final = {
    "lease_released": "its lease was given back",
    "lease_expired": "its lease ran out",
    "lease_revoked": "its lease was taken away",
    "worker_dead": "its worker died",
}


def waits_for_worker(run: Execution) -> bool:
    """Return whether a worker could claim the execution now."""
    if run.lifecycle_phase is Phase.ACTIVE:
        return run.ownership_state is not Ownership.LEASED
    return run.lifecycle_phase is Phase.RUNNABLE and run.eligibility_state is Eligibility.NOW


async def explain_queues(store: Commands, runs: Iterable[Execution]) -> dict[Queue, Because]:
    """Return why each queue with claimable work among the executions is held up; one question per queue."""
    first: dict[Queue, str] = {}
    for run in runs:
        if waits_for_worker(run) and len(first) < MAX_QUEUES:
            first.setdefault(_queue_of(run), run.execution_id)
    reasons = await asyncio.gather(*(_last_reason(store, each) for each in first.values()))
    return {queue: reason for queue, reason in zip(first, reasons, strict=True) if reason is not None}


async def _last_reason(store: Commands, execution_id: str) -> Because | None:
    try:
        because = (await store.read(Describe(execution_id=execution_id))).because
    except NotFound:  # purged since the list was read
        return None
    return because[-1] if because else None  # empty if it was claimed since


def _queue_of(run: Execution) -> Queue:
    return run.namespace, run.lane_id, run.execution_kind, run.required_capabilities


def note_of(run: Execution, queues: dict[Queue, Because]) -> str:
    """Return why an execution ended, how far it is, who runs it, or what it waits for."""
    if run.completed_at:
        return run.failure_reason or run.cancellation_reason
    if waits_for_worker(run):
        waits = _waits(queues.get(_queue_of(run)))
        if run.lifecycle_phase is Phase.ACTIVE:
            return f"{waits}: {_LOST.get(lost_reason(run), 'its lease is gone')}"
        return waits
    if run.progress_pct >= 0:
        return f"{run.progress_pct}% {run.progress_message}".strip()
    if run.public_state is Public.ACTIVE:
        return f"on {_holder(run)}"
    return run.blocking_detail or str(run.blocking_reason).replace("_", " ")


def _holder(run: Execution) -> str:
    """Return the worker that holds the lease, with the end of its instance id if two may share the name."""
    instance = run.current_worker_instance_id
    if instance == run.current_worker_id:
        return instance
    return f"{run.current_worker_id} (…{instance[-_INSTANCE_SUFFIX:]})"


def _waits(because: Because | None) -> str:
    if because is not None and because.reason == NO_WORKER_FOR_KIND:
        return f"no worker takes {because.data['kind']}"
    if because is not None and because.reason != Blocking.WORKER:
        return because.reason.replace("_", " ")
    return "waits for a worker"


def remarks_on(runs: Iterable[Execution], queues: dict[Queue, Because]) -> list[str]:
    """Return sentences on work that no worker takes, to be printed below a list."""
    left = sum(waits_for_worker(run) and run.lifecycle_phase is Phase.ACTIVE for run in runs)
    lost = [f"active without a worker: {left}; the lease is gone, and it waits for a worker"] if left else []
    held_up = (
        each for each in queues.values() if each.reason in {NO_WORKER_FOR_KIND, Blocking.CAPABLE_WORKER}
    )
    return [*lost, *dict.fromkeys(each.detail for each in held_up)]
