"""Commands that leave in one turn share one call: the server decides them one after the other, in one step.

What a call costs whatever it decides (the way in and out, the time, entries of indexes, waking whoever waits) is then
paid once for all of them. Each command keeps its own answer, and an error of its own does not touch the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

from flowfabric.storage.valkey.keys import SINGLE
from flowfabric.storage.valkey.operations import OPERATIONS

T = TypeVar("T")
Arguments = tuple[Any, ...]
"""`FCALL function 1 home time chance fields blob …`, or any other call."""

MOST: Final = 16
"""So many commands share a call: the server answers nobody else meanwhile."""
MOST_BYTES: Final = 1 << 18
APART: Final = frozenset({"ff_purge_execution"})
"""They run when no memory is left, and would be refused together with what must not."""
_TOGETHER: Final = frozenset(known.function for known in OPERATIONS.values()) - APART


def grouped(leaving: Sequence[tuple[Arguments, T]]) -> Iterator[tuple[list[Arguments], list[T]]]:
    """Split calls, in their order, into groups that can share a call; what belongs to each call stays beside it."""
    calls: list[Arguments] = []
    beside: list[T] = []
    room = 0
    for call, owner in leaving:
        weight = _weight(call)
        if calls and (weight > room or len(calls) == MOST or calls[0][4] != call[4]):
            yield calls, beside
            calls, beside = [], []
        if not calls:
            room = MOST_BYTES if weight <= MOST_BYTES else 0
        calls.append(call)
        beside.append(owner)
        room -= weight
    if calls:
        yield calls, beside


def together(calls: Sequence[Arguments]) -> Arguments:
    """Make one call of several."""
    parts: list[Any] = ["FCALL", "ff_several", 1, *calls[0][3:5]]
    for call in calls:
        parts += (call[1], call[5], call[6], len(call) - 7, *call[7:])
    return tuple(parts)


def _weight(call: Arguments) -> int:
    """How many bytes a call brings along: too many when it cannot share."""
    if call[0] != "FCALL" or call[1] not in _TOGETHER or call[3] != SINGLE:
        return MOST_BYTES + 1
    return sum(map(len, call[6:]))
