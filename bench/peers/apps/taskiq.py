"""taskiq: streams with acknowledgements, no results."""

from __future__ import annotations

from typing import Any

from taskiq_redis import RedisStreamBroker  # type: ignore[import-not-found]

from bench.peers.submit import BODY, URL, spread
from bench.peers.ticks import tick

broker = RedisStreamBroker(URL, xread_count=100)


@broker.task(task_name="nop")  # type: ignore[untyped-decorator]
async def nop(_body: dict[str, Any]) -> None:
    """Do nothing."""
    tick()


async def submit(count: int) -> None:
    """The broker's start makes the group that keeps what is sent before workers come."""
    await broker.startup()
    await spread(count, lambda: nop.kiq(BODY))
    await broker.shutdown()
