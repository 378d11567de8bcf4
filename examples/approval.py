"""Waiting for a person: the worker gives its lease back, and a signed token lets the answer in.

Run it with `python examples/approval.py [approvals.db]`.
"""

import asyncio
import sys
import uuid

from flowfabric import Engine, open_store
from flowfabric.engine import claim_when_ready
from flowfabric.model.conditions import single
from flowfabric.model.ids import spread
from flowfabric.model.operations.claim import Claim, Task
from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.operations.finish import Complete
from flowfabric.model.operations.signal import DeliverSignal
from flowfabric.model.operations.suspend import Binding, Suspend, Suspended
from flowfabric.storage.base import Commands


async def claim_one(store: Commands) -> Task:
    """Wait for one task."""
    claim = Claim(worker_id="w1", worker_instance_id="w1-a", lanes=("default",), mint=str(uuid.uuid4()))
    (task,) = (await claim_when_ready(store, claim, wait_ms=5_000)).tasks
    return task


async def main(path: str) -> None:
    """Suspend an invoice, approve it from outside, and go on."""
    store = await open_store(path)
    async with Engine(store):
        execution_id = spread(str(uuid.uuid4()), store.partitions)
        await store.apply(CreateExecution(execution_id=execution_id, execution_kind="invoice"))

        task = await claim_one(store)
        suspended = await store.apply(
            Suspend(
                execution_id=task.execution_id,
                fence=task.fence,
                suspension_id=str(uuid.uuid4()),
                waitpoints=(Binding(str(uuid.uuid4()), "approval"),),
                condition=single("approval"),
                timeout_ms=86_400_000,
                timeout_behavior="cancel",
            )
        )
        assert isinstance(suspended, Suspended)
        print("suspended; no worker is kept busy while it waits")

        # Anybody who was given the token may answer, from any process.
        await store.apply(
            DeliverSignal(
                execution_id=execution_id,
                waitpoint_id=suspended.waitpoint.waitpoint_id,
                waitpoint_token=suspended.waitpoint.waitpoint_token,
                signal_id=str(uuid.uuid4()),
                signal_name="approved",
                source_identity="carol",
            )
        )

        task = await claim_one(store)
        (signal,) = task.resume_signals
        print(f"{signal.signal_name} by {signal.source_identity}")
        await store.apply(Complete(execution_id=task.execution_id, fence=task.fence))
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "approvals.db"))
