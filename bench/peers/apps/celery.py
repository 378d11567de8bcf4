"""Celery: without results, events, gossip and remote control, and with a deep prefetch."""

from __future__ import annotations

from typing import Any

from celery import Celery  # type: ignore[import-not-found]

from bench.peers.submit import BODY, URL
from bench.peers.ticks import tick

app = Celery("bench", broker=URL)
app.conf.update(
    task_ignore_result=True,
    task_store_errors_even_if_ignored=False,
    task_send_sent_event=False,
    worker_send_task_events=False,
    worker_enable_remote_control=False,
    worker_prefetch_multiplier=64,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="nop")  # type: ignore[untyped-decorator]
def nop(_body: dict[str, Any]) -> None:
    """Do nothing."""
    tick()


def submit(count: int) -> None:
    """One after another, over one connection."""
    with app.producer_pool.acquire(block=True) as producer:
        for _ in range(count):
            nop.apply_async((BODY,), producer=producer)
