"""A process that sleeps until a topic wakes it: `python -m support.chaos.waiter <database> <poll seconds> <topic>`."""

from __future__ import annotations

import asyncio
import sys

from flowfabric.storage.sqlite import SqliteStore
from flowfabric.storage.sqlite import store as store_module
from support.chaos.claimer import _claim
from support.chaos.stream import say


async def main(path: str, poll: float, topic: str) -> None:
    """Say when it listens, when it is woken, and what it could claim then."""
    store_module.POLL_SECONDS = poll  # type: ignore[misc]
    store = await SqliteStore.open(path)
    async with store.subscribe([topic]) as listener:
        say(fact="listening")
        woken = await listener.wait(50)
    tasks = (await store.apply(_claim("waiter"))).tasks
    say(fact="woken", woken=woken, tasks=[task.execution_id for task in tasks])
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), sys.argv[3]))
