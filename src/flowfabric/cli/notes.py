"""What a list says of each execution: who works on it, or what it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from flowfabric.model.errors import NotFound
from flowfabric.model.operations.claim import lost_reason
from flowfabric.model.operations.read import Describe
from flowfabric.model.operations.worker_serving import NO_WORKER_FOR_KIND, Because
from flowfabric.model.records import Execution, Worker
from flowfabric.model.state import Blocking, Eligibility, Ownership, Phase, Public
from flowfabric.storage.base import Commands

ASKED: Final = 20
"""Of how many different queues a list says who would take their work."""
_SHOWN: Final = 6
Queue = tuple[str, str, str, tuple[str, ...]]
_LOST: Final = {
    "lease_released": "its lease was given back",
    "lease_expired": "its lease ran out",
    "lease_revoked": "its lease was taken away",
    "worker_dead": "its worker died",
}


def holder(run: Execution) -> str:
    """Name who holds the lease: two workers of one host have different ends."""
    instance = run.current_worker_instance_id
    if instance == run.current_worker_id:
        return instance
    return f"{run.current_worker_id} (…{instance[-_SHOWN:]})"


def waits_for_worker(run: Execution) -> bool:
    """Whether the next worker that takes its kind may have it."""
    if run.lifecycle_phase is Phase.ACTIVE:
        return run.ownership_state is not Ownership.LEASED
    return run.lifecycle_phase is Phase.RUNNABLE and run.eligibility_state is Eligibility.NOW


async def queues_of(store: Commands, runs: Iterable[Execution]) -> dict[Queue, Because]:
    """Say what holds up the work that waits for workers, once for all that the same workers can take."""
    first: dict[Queue, str] = {}
    for run in runs:
        if waits_for_worker(run) and len(first) < ASKED:
            first.setdefault(queue_of(run), run.execution_id)
    told = await asyncio.gather(*(_last_reason(store, each) for each in first.values()))
    return {queue: because for queue, because in zip(first, told, strict=True) if because is not None}


async def _last_reason(store: Commands, execution_id: str) -> Because | None:
    try:
        because = (await store.read(Describe(execution_id=execution_id))).because
    except NotFound:  # gone since
        return None
    return because[-1] if because else None  # it has begun since


def queue_of(run: Execution) -> Queue:
    """Name the queue that an execution waits in."""
    return run.namespace, run.lane_id, run.execution_kind, run.required_capabilities


def note(run: Execution, queues: dict[Queue, Because]) -> str:
    """Say in a few words how it stands."""
    if run.completed_at:
        return run.failure_reason or run.cancellation_reason
    if waits_for_worker(run):
        waits = _waits(queues.get(queue_of(run)))
        if run.lifecycle_phase is Phase.ACTIVE:
            return f"{waits}: {_LOST.get(lost_reason(run), 'its lease is gone')}"
        return waits
    if run.progress_pct >= 0:
        return f"{run.progress_pct}% {run.progress_message}".strip()
    if run.public_state is Public.ACTIVE:
        return f"on {holder(run)}"
    return run.blocking_detail or str(run.blocking_reason).replace("_", " ")


def _waits(because: Because | None) -> str:
    if because is not None and because.reason == NO_WORKER_FOR_KIND:
        return f"no worker takes {because.data['kind']}"
    if because is not None and because.reason != Blocking.WORKER:
        return because.reason.replace("_", " ")
    return "waits for a worker"


def remarks(runs: Iterable[Execution], queues: dict[Queue, Because]) -> list[str]:
    """Write out what keeps workers from work, for below a list."""
    left = sum(waits_for_worker(run) and run.lifecycle_phase is Phase.ACTIVE for run in runs)
    lost = [f"active without a worker: {left}; the lease is gone, and it waits for a worker"] if left else []
    told = (each for each in queues.values() if each.reason in {NO_WORKER_FOR_KIND, Blocking.CAPABLE_WORKER})
    return [*lost, *dict.fromkeys(each.detail for each in told)]


def kinds(worker: Worker) -> str:
    """Write down what a worker takes."""
    return ", ".join(worker.kinds) or "any"
