"""arq: a sorted set that workers poll, every 10 ms instead of every 500; no results."""

from __future__ import annotations

import logging
from typing import Any, ClassVar

from arq import create_pool  # type: ignore[import-not-found]
from arq.connections import RedisSettings  # type: ignore[import-not-found]

from bench.peers.submit import BODY, PROCESSES, SLOTS, URL, spread
from bench.peers.ticks import tick


async def nop(_context: Any, _body: dict[str, Any]) -> None:
    """Do nothing."""
    tick()


async def be_quiet(_context: Any) -> None:
    """Two lines of log for each job would be measured too."""
    logging.getLogger("arq").setLevel(logging.ERROR)


class WorkerSettings:
    """What its command line reads."""

    functions: ClassVar = [nop]
    on_startup = be_quiet
    redis_settings = RedisSettings.from_dsn(URL)
    max_jobs = SLOTS // PROCESSES
    keep_result = 0
    poll_delay = 0.01


async def submit(count: int) -> None:
    """Over one pool of connections."""
    pool = await create_pool(WorkerSettings.redis_settings)
    await spread(count, lambda: pool.enqueue_job("nop", BODY))
    await pool.aclose()
