"""Stopping a worker: its signals, and its log during the grace period."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from flowfabric.worker.execution.running_task import RunningTask

log = logging.getLogger("flowfabric.worker")

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
REMINDER_SECONDS: Final = 5.0
"""How often a stopping worker logs which handlers it waits for."""
MOST_NAMED: Final = 10
"""The most running handlers that one line of the log names."""


@contextlib.contextmanager
def stop_signals(stop: Callable[[], None], hurry: Callable[[], None]) -> Iterator[bool]:
    """Call `stop` at the first SIGINT or SIGTERM and `hurry` at the second; a third has its default effect.

    Yields whether signals are handled, which is possible in the main thread only.
    """
    if threading.current_thread() is not threading.main_thread():
        yield False
        return
    loop = asyncio.get_running_loop()
    received = 0

    def on_signal() -> None:
        nonlocal received
        received += 1
        if received == 1:
            stop()
            return
        hurry()
        restore()

    def restore() -> None:
        for number in SIGNALS:
            loop.remove_signal_handler(number)

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        yield True
    finally:
        restore()


def log_grace(instance_id: str, running: Iterable[RunningTask], left: float, *, by_signal: bool) -> None:
    """Log which handlers a stopping worker waits for, and for how long."""
    tasks = list(running)
    log.warning(
        "%s stops: waiting up to %.3g s for %d running %s: %s%s",
        instance_id,
        left,
        len(tasks),
        "task" if len(tasks) == 1 else "tasks",
        names_of(tasks),
        "; a second signal gives them back now" if by_signal else "",
    )


def names_of(running: Iterable[RunningTask]) -> str:
    """Return a list of running handlers, the oldest first: kind, execution and duration."""
    now = time.monotonic()
    tasks = sorted(running, key=lambda each: each.began)
    named = [
        f"{each.handler.kind} of {each.task.execution_id} (for {now - each.began:.3g} s)"
        for each in tasks[:MOST_NAMED]
    ]
    more = len(tasks) - MOST_NAMED
    return ", ".join([*named, f"and {more} more"] if more > 0 else named)
