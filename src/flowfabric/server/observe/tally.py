"""What this server did lately, all its processes together: one small ring of seconds for each kind of answer.

It is counted for everything, and for each of the namespaces in which something happened lately.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

from flowfabric.model.command import Command
from flowfabric.model.operations.claim import Claimed
from flowfabric.model.operations.create import Created
from flowfabric.model.operations.finish import Cancelled, Completed, RetryScheduled, TerminalFailed
from flowfabric.model.operations.operate import Replayed
from flowfabric.model.operations.signal import SignalAccepted
from flowfabric.model.operations.suspend import Suspended
from flowfabric.server.observe.sharing import other_boards, own_board

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
_RING_CELLS: Final = len(_NAMES) * WINDOW * 2
NAMESPACES: Final = 64
"""How many namespaces are counted apart: those in which something happened within the window."""
_SLOT: Final = 2 + _RING_CELLS
_SIZE: Final = 1 + _RING_CELLS + NAMESPACES * _SLOT
REMEMBERED: Final = 10_000
"""Of how many executions the namespace is remembered: what happens to them later names only the execution."""


class Tally:
    """Counts what was done in each of the last sixty seconds.

    The board holds when it was begun, in milliseconds, and for each kind of answer sixty pairs of a second and how many
    there were in it. A pair of a second that is too long ago does not count. Then follow slots for namespaces: which
    one, in which second it was last counted, and such pairs.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begin = clock()
        self._board = own_board(_BOARD, _SIZE)
        self._board[0] = self._board[0] or int(self._begin * 1000)
        self._namespace_of: OrderedDict[str, str] = OrderedDict()
        starts = map(_start, range(NAMESPACES))
        self._slots = {self._board[start]: start for start in starts if self._board[start]}

    def note(self, command: Command[Any], reply: Any, namespace: str = "") -> None:
        """Count an answer of the store, if it is one that is counted, in the namespace in which it happened."""
        ring = _RINGS.get(type(reply))
        if ring is None:
            return
        second = int(self._clock())
        if isinstance(reply, Claimed):
            for task in reply.tasks:
                self._remember(task.execution_id, task.namespace)
            counts = Counter(task.namespace for task in reply.tasks)
        else:
            counts = Counter((namespace or self._whose(command, reply),))
        self._add(1, ring, second, counts.total())
        for name, n in counts.items():
            if name and (slot := self._slot(_digest(name), second)):
                self._board[slot + 1] = second
                self._add(slot + 2, ring, second, n)

    def rates(self, namespace: str = "") -> dict[str, Any]:
        """Return what was done in the last minute, in one namespace or in all, as counts and per second."""
        now = self._clock()
        boards = [self._board, *other_boards(_BOARD)]
        counts = dict.fromkeys(_NAMES.values(), 0)
        for board in boards:
            base = _find(board, _digest(namespace)) + 2 if namespace else 1
            for ring, name in enumerate(counts):
                counts[name] += _sum(board, base, ring, int(now)) if base > 0 else 0
        begin = min(board[0] for board in boards) / 1000
        seconds = max(min(now - begin, WINDOW), 1.0)
        per_second = {f"{name}_per_second": round(count / seconds, 3) for name, count in counts.items()}
        return {"window_seconds": WINDOW, **per_second, "last_minute": counts}

    def uptime_ms(self) -> int:
        """How long this server has been up."""
        return int((self._clock() - self._begin) * 1000)

    def _add(self, base: int, ring: int, second: int, n: int) -> None:
        cell = _cell(base, ring, second)
        if self._board[cell] != second:
            self._board[cell] = second
            self._board[cell + 1] = 0
        self._board[cell + 1] += n

    def _whose(self, command: Command[Any], reply: Any) -> str:
        execution_id = getattr(command, "execution_id", "")
        if isinstance(reply, Created):
            self._remember(reply.execution_id, getattr(command, "namespace", ""))
        return self._namespace_of.get(execution_id, "")

    def _remember(self, execution_id: str, namespace: str) -> None:
        self._namespace_of[execution_id] = namespace
        if len(self._namespace_of) > REMEMBERED:
            self._namespace_of.popitem(last=False)

    def _slot(self, digest: int, second: int) -> int:
        """Find the slot of a namespace, or take one that has nothing of the last minute; 0 when there is none."""
        if digest in self._slots:
            return self._slots[digest]
        stale = min(range(NAMESPACES), key=lambda each: self._board[_start(each) + 1])
        slot = _start(stale)
        if self._board[slot] and self._board[slot + 1] > second - WINDOW:
            return 0
        self._slots.pop(self._board[slot], None)
        self._board[slot] = digest
        self._slots[digest] = slot
        for cell in range(slot + 2, slot + _SLOT):
            self._board[cell] = 0
        return slot


@lru_cache(maxsize=NAMESPACES)
def _digest(namespace: str) -> int:
    return int.from_bytes(blake2b(namespace.encode(), digest_size=7).digest()) + 1


def _start(slot: int) -> int:
    return 1 + _RING_CELLS + slot * _SLOT


def _find(board: memoryview, digest: int) -> int:
    """Return where the slot of a namespace begins, or -2."""
    return next((start for start in map(_start, range(NAMESPACES)) if board[start] == digest), -2)


def _cell(base: int, ring: int, second: int) -> int:
    return base + (ring * WINDOW + second % WINDOW) * 2


def _sum(board: memoryview, base: int, ring: int, now: int) -> int:
    cells = (_cell(base, ring, second) for second in range(WINDOW))
    return sum(board[cell + 1] for cell in cells if now - WINDOW < board[cell] <= now)
