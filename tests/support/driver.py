"""Short names for common commands, so that a test shows only what it is about."""

from __future__ import annotations

import json
import uuid
from typing import Any

from flowfabric.model import ids
from flowfabric.model.command import Fence
from flowfabric.model.operations.access_secret import SeedSecret
from flowfabric.model.operations.claim import Claim, Task
from flowfabric.model.operations.create import Created, CreateExecution
from flowfabric.model.operations.finish import Complete, Completed, Fail, RetryScheduled, TerminalFailed
from flowfabric.model.operations.read import Describe, ReadHistory
from flowfabric.model.records import Event, Execution
from flowfabric.model.transitions import vector_of
from flowfabric.storage.base import Upkeep
from support.clock import ManualClock

SECRET = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
LEASE = 30_000


def new_uuid() -> str:
    return str(uuid.uuid4())


class Driver:
    """A store, its clock, and the commands that most tests send."""

    def __init__(self, store: Upkeep, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock

    @property
    def now(self) -> int:
        return self.clock.now

    def new_id(self) -> str:
        """Mint an execution id of a partition of its own."""
        return ids.spread(new_uuid(), self.store.partitions)

    async def create(self, *, policy: dict[str, Any] | None = None, **fields: Any) -> str:
        """Create an execution and return its id."""
        fields.setdefault("execution_id", self.new_id())
        fields.setdefault("execution_kind", "job")
        if policy is not None:
            fields["policy"] = json.dumps(policy).encode()
        created = await self.store.apply(CreateExecution(**fields))
        assert isinstance(created, Created)
        return created.execution_id

    async def claim(self, **fields: Any) -> tuple[Task, ...]:
        """Claim from the default lane as worker w1."""
        defaults: dict[str, Any] = {
            "worker_id": "w1",
            "worker_instance_id": "w1-a",
            "lanes": ("default",),
            "mint": new_uuid(),
            "lease_ttl_ms": LEASE,
        }
        return (await self.store.apply(Claim(**defaults | fields))).tasks

    async def claim_one(self, **fields: Any) -> Task:
        """Claim exactly one task."""
        (task,) = await self.claim(**fields)
        return task

    async def running(self, **fields: Any) -> Task:
        """Create and claim one execution."""
        execution_id = await self.create(**fields)
        task = await self.claim_one(lanes=(fields.get("lane_id", "default"),))
        assert task.execution_id == execution_id
        return task

    async def complete(self, task: Task, result: bytes | None = None, **fields: Any) -> Completed:
        return await self.store.apply(
            Complete(execution_id=task.execution_id, fence=task.fence, result=result, **fields)
        )

    async def fail(self, task: Task, reason: str = "boom", **fields: Any) -> RetryScheduled | TerminalFailed:
        return await self.store.apply(
            Fail(execution_id=task.execution_id, fence=task.fence, reason=reason, **fields)
        )

    async def show(self, execution_id: str) -> Execution:
        """Return the record as users see it."""
        return (await self.store.read(Describe(execution_id=execution_id))).run

    async def vector(self, execution_id: str) -> tuple[str, ...]:
        """Return the six stored dimensions and the public state, as text."""
        run = await self.show(execution_id)
        return (*(str(part) for part in vector_of(run)), str(run.public_state))

    async def history(self, execution_id: str) -> list[Event]:
        page = await self.store.read(ReadHistory(execution_id=execution_id, limit=1000))
        return list(page.events)

    async def events(self, execution_id: str) -> list[str]:
        """Return the names of everything that happened."""
        return [event.event for event in await self.history(execution_id)]

    async def seed(self) -> None:
        """Install the waitpoint secret k1."""
        await self.store.apply(SeedSecret(kid="k1", secret_hex=SECRET))

    @staticmethod
    def stale(task: Task) -> Fence:
        """A fence of the same attempt and epoch under another lease."""
        return Fence(new_uuid(), task.fence.lease_epoch, task.fence.attempt_id)
