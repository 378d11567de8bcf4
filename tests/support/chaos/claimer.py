"""A process that claims and completes until nothing is left: `python -m support.chaos.claimer <database> <name>`."""

from __future__ import annotations

import asyncio
import sys
import uuid

from flowfabric.model.operations.claim import Claim, Task
from flowfabric.model.operations.finish import Complete
from flowfabric.storage.sqlite import SqliteStore
from support.chaos.stream import say


async def main(path: str, name: str) -> None:
    """Wait for the word, then take whatever there is."""
    store = await SqliteStore.open(path)
    say(fact="ready")
    await asyncio.to_thread(sys.stdin.readline)
    async with asyncio.TaskGroup() as slots:
        for _ in range(3):
            slots.create_task(_drain(store, name))
    await store.close()


async def _drain(store: SqliteStore, name: str) -> None:
    while tasks := (await store.apply(_claim(name))).tasks:
        for task in tasks:
            await _complete(store, name, task)


def _claim(name: str) -> Claim:
    return Claim(
        worker_id=name,
        worker_instance_id=name,
        lanes=("default",),
        mint=str(uuid.uuid4()),
        max_tasks=2,
        lease_ttl_ms=3_600_000,
    )


async def _complete(store: SqliteStore, name: str, task: Task) -> None:
    say(fact="executed", id=task.execution_id)
    await store.apply(Complete(execution_id=task.execution_id, fence=task.fence, result=name.encode()))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
