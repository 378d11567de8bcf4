"""Submit inside a peer's environment: `python -m bench.peers.submit APP TASKS` prints the seconds that it took."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

URL = os.environ.get("FF_BENCH_URL", "redis://127.0.0.1:6379/0")
SLOTS = int(os.environ.get("FF_BENCH_SLOTS", "16"))
"""All processes of a peer together."""
PROCESSES = int(os.environ.get("FF_BENCH_PROCESSES", "2"))
BODY = {"text": "x" * max(0, int(os.environ.get("FF_BENCH_PAYLOAD", "4096")) - 11)}


async def spread(count: int, submit: Callable[[], Awaitable[Any]]) -> None:
    """Submit with as many concurrent submitters as slots."""
    numbers = iter(range(count))

    async def submitter() -> None:
        for _ in numbers:
            await submit()

    await asyncio.gather(*(submitter() for _ in range(SLOTS)))


def main(app: str, count: int) -> None:
    """Submit and print how long it took."""
    module = importlib.import_module(f"bench.peers.apps.{app}")
    begin = time.perf_counter()
    work = module.submit(count)
    if asyncio.iscoroutine(work):
        import uvloop  # noqa: PLC0415 - only where the application is asynchronous

        uvloop.run(work)
    print(time.perf_counter() - begin)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
