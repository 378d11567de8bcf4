"""What this server did lately, all its processes together: one small ring of seconds for each kind of answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from flowfabric.model.contracts.create import Cancelled, Created, Replayed
from flowfabric.model.contracts.lease import Claimed, Completed, RetryScheduled, TerminalFailed
from flowfabric.model.contracts.waiting import SignalAccepted, Suspended
from flowfabric.server.sharing import other_boards, own_board

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


_RINGS: Final = {kind: ring for ring, kind in enumerate(_NAMES)}
_BOARD: Final = "tally"
_SIZE: Final = 1 + len(_NAMES) * WINDOW * 2


class Tally:
    """Counts what was done in each of the last sixty seconds.

    The board holds when it was begun, in milliseconds, and for each kind of answer sixty pairs of a second and how many
    there were in it. A pair of a second that is too long ago does not count.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begin = clock()
        self._board = own_board(_BOARD, _SIZE)
        self._board[0] = self._board[0] or int(self._begin * 1000)

    def note(self, reply: Any) -> None:
        """Count an answer of the store, if it is one that is counted."""
        ring = _RINGS.get(type(reply))
        if ring is None:
            return
        second = int(self._clock())
        cell = _cell(ring, second)
        if self._board[cell] != second:
            self._board[cell] = second
            self._board[cell + 1] = 0
        self._board[cell + 1] += len(reply.tasks) if isinstance(reply, Claimed) else 1

    def rates(self) -> dict[str, Any]:
        """Return what was done in the last minute, as counts and per second."""
        now = self._clock()
        boards = [self._board, *other_boards(_BOARD)]
        counts = dict.fromkeys(_NAMES.values(), 0)
        for board in boards:
            for ring, name in enumerate(counts):
                counts[name] += _sum(board, ring, int(now))
        begin = min(board[0] for board in boards) / 1000
        seconds = max(min(now - begin, WINDOW), 1.0)
        per_second = {f"{name}_per_second": round(count / seconds, 3) for name, count in counts.items()}
        return {"window_seconds": WINDOW, **per_second, "last_minute": counts}

    def uptime_ms(self) -> int:
        """How long this server has been up."""
        return int((self._clock() - self._begin) * 1000)


def _cell(ring: int, second: int) -> int:
    return 1 + (ring * WINDOW + second % WINDOW) * 2


def _sum(board: memoryview, ring: int, now: int) -> int:
    cells = (_cell(ring, second) for second in range(WINDOW))
    return sum(board[cell + 1] for cell in cells if now - WINDOW < board[cell] <= now)
