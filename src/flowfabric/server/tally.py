"""What this server did lately, counted in memory: one small ring of seconds for each kind of answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from flowfabric.model.contracts.create import Cancelled, Created, Replayed
from flowfabric.model.contracts.lease import Claimed, Completed, RetryScheduled, TerminalFailed
from flowfabric.model.contracts.waiting import SignalAccepted, Suspended

WINDOW: Final = 60
_NAMES: Final[dict[type, str]] = {
    Created: "submitted",
    Claimed: "claimed",
    Completed: "completed",
    TerminalFailed: "failed",
    RetryScheduled: "retried",
    Cancelled: "cancelled",
    Suspended: "suspended",
    SignalAccepted: "signals",
    Replayed: "replayed",
}


class Tally:
    """Counts what was done in each of the last sixty seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begin = clock()
        self._rings: dict[str, list[int]] = {name: [0] * WINDOW for name in _NAMES.values()}
        self._second = int(self._begin)

    def note(self, reply: Any) -> None:
        """Count an answer of the store, if it is one that is counted."""
        name = _NAMES.get(type(reply))
        if name is not None:
            self._turn()
            self._rings[name][self._second % WINDOW] += len(reply.tasks) if isinstance(reply, Claimed) else 1

    def rates(self) -> dict[str, Any]:
        """Return what was done in the last minute, as counts and per second."""
        self._turn()
        counts = {name: sum(ring) for name, ring in self._rings.items()}
        seconds = max(min(self._clock() - self._begin, WINDOW), 1.0)
        per_second = {f"{name}_per_second": round(count / seconds, 3) for name, count in counts.items()}
        return {"window_seconds": WINDOW, **per_second, "last_minute": counts}

    def uptime_ms(self) -> int:
        """How long this server has been up."""
        return int((self._clock() - self._begin) * 1000)

    def _turn(self) -> None:
        now = int(self._clock())
        for second in range(max(self._second, now - WINDOW) + 1, now + 1):
            for ring in self._rings.values():
                ring[second % WINDOW] = 0
        self._second = now
