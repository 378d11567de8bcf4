"""Declaring a worker dead: its record goes, and its leases with it."""

from __future__ import annotations

from flowfabric.model.operations.lease import ListLeases
from flowfabric.model.operations.read import GetExecution
from flowfabric.model.operations.timer import LoseDeadLease, MarkedExpired
from flowfabric.model.operations.worker import MarkWorkerDead
from flowfabric.storage.base import Commands


async def bury(store: Commands, command: MarkWorkerDead, *, only: str = "") -> tuple[object, int]:
    """Mark a worker dead and take its leases; return the outcome and how many leases it lost.

    The leases go whether or not the worker was known: one that only claimed may have been forgotten already. A crash
    in between leaves leases that expire by themselves. `only` names the one namespace whose leases the caller may take.
    """
    outcome = await store.apply(command)
    held = await store.read(ListLeases(worker_instance_id=command.worker_instance_id))
    if only:
        runs = [await store.read(GetExecution(execution_id=execution_id)) for execution_id in held]
        held = tuple(run.execution_id for run in runs if run.namespace == only)
    losses = [
        LoseDeadLease(
            execution_id=execution_id, worker_instance_id=command.worker_instance_id, actor=command.actor
        )
        for execution_id in held
    ]
    replies = await store.apply_many(losses) if losses else []
    return outcome, sum(isinstance(reply, MarkedExpired) for reply in replies)
