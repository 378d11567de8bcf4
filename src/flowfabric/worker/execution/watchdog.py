"""Detecting handlers that block the event loop or hold the interpreter lock."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Final

log = logging.getLogger("flowfabric.worker")

BLOCKED_SECONDS: Final = 0.5
"""An event loop that does not run a callback for so long is blocked."""
HELD_SECONDS: Final = 1.0
"""A thread that wakes so late was kept from running; for short leases the limit is lower."""


class LoopWatchdog:
    """Watches an event loop from another thread. `name_of` returns the handler that a task of the loop runs."""

    def __init__(
        self, name_of: Callable[[asyncio.Task[object] | None], str], in_threads: Callable[[], list[str]]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._name_of = name_of
        self._in_threads = in_threads
        self._asked = 0.0
        self._warned = False

    def look(self, late: float, ttl: float) -> None:
        """Schedule a callback on the loop; warn if the last one has not run, or if this thread woke late."""
        now = time.monotonic()
        if late > min(HELD_SECONDS, ttl / 6):
            self._warn_held(late)
        if not self._asked:
            self._ask(now)
        elif now - self._asked >= BLOCKED_SECONDS and not self._warned:
            self._warned = True
            self._warn_blocked(now - self._asked)

    def _ask(self, now: float) -> None:
        self._asked = now
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._answered)

    def _answered(self) -> None:
        self._asked, self._warned = 0.0, False

    def _warn_blocked(self, seconds: float) -> None:
        log.warning(
            "%s blocks the event loop, for %.1f s already, at %s. Its lease is renewed meanwhile, but everything else "
            "in this worker waits: write it as a plain `def` (it then runs in a thread), or give it executor='process'",
            self._blocker(),
            seconds,
            self._place(),
        )

    def _warn_held(self, seconds: float) -> None:
        log.warning(
            "%s held the interpreter (the GIL) for %.1f s: its lease is lost when that takes longer than the lease "
            "lives. Give it executor='process', which has an interpreter of its own",
            self._blocker(),
            seconds,
        )

    def _blocker(self) -> str:
        task = asyncio.current_task(self._loop)
        name = self._name_of(task)
        if name:
            return f"handler {name!r}"
        names = self._in_threads()
        if names:
            return f"one of the handlers {', '.join(map(repr, names))}"
        return "something beside the handlers"

    def _place(self) -> str:
        frame = sys._current_frames().get(self._thread)  # noqa: SLF001 - the documented way to see another thread
        if frame is None:
            return "an unknown place"
        last = traceback.extract_stack(frame)[-1]
        return f"{last.filename}:{last.lineno}"
