"""Huey: a list with blocking pops, no results."""

from __future__ import annotations

from typing import Any

from huey import RedisHuey  # type: ignore[import-not-found]

from bench.peers.submit import BODY, URL
from bench.peers.ticks import tick

queue = RedisHuey("bench", url=URL, results=False)


@queue.task(name="nop")  # type: ignore[untyped-decorator]
def nop(_body: dict[str, Any]) -> None:
    """Do nothing."""
    tick()


def submit(count: int) -> None:
    """One after another: its calls block."""
    for _ in range(count):
        nop(BODY)
