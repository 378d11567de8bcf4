"""SAQ: jobs with results for a while, as it does by default."""

from __future__ import annotations

from typing import Any

from saq import Queue  # type: ignore[import-not-found]

from bench.peers.submit import BODY, PROCESSES, SLOTS, URL, spread
from bench.peers.ticks import tick

queue = Queue.from_url(URL)


async def nop(_context: Any, *, body: dict[str, Any]) -> None:
    """Do nothing."""
    del body
    tick()


settings = {"queue": queue, "functions": [nop], "concurrency": SLOTS // PROCESSES}


async def submit(count: int) -> None:
    """Over one pool of connections."""
    await queue.connect()
    await spread(count, lambda: queue.enqueue("nop", body=BODY))
    await queue.disconnect()
