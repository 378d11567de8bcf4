"""Where the best work of a lane lies in a cluster, as far as this process knows.

Every answer tells how the queues that it touched begin now, and what other processes do is heard from the server. A
hint may be wrong: then a claim brings nothing, and all partitions are looked at. So hints save round trips and decide
nothing.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from flowfabric.model.operations.claim import Claim

SPARE: Final = 64
"""How many heads that are out of date a queue may keep beside one for each home."""
Head = tuple[int, str]
"""The score and the id of the best execution of a queue."""
Place = tuple[str, str]
"""A lane and a route in it, `kind \\0 capabilities`."""


class Note(NamedTuple):
    """How a queue begins, as of a number that its partition has given out."""

    home: str
    number: int
    lane: str
    route: str
    head: Head | None


class Best(NamedTuple):
    """The home with the best work for a claim, and the best that lies elsewhere."""

    home: str
    elsewhere: Head | None


class _Queue:
    """One route in all homes, the best on top; what is out of date is dropped when it comes up."""

    def __init__(self) -> None:
        self.heads: dict[str, tuple[int, Head | None]] = {}
        self._heap: list[tuple[Head, str]] = []

    def note(self, note: Note) -> None:
        known = self.heads.get(note.home)
        if known is not None and known[0] > note.number:
            return
        self.heads[note.home] = (note.number, note.head)
        if note.head is not None and (known is None or known[1] != note.head):
            heapq.heappush(self._heap, (note.head, note.home))
            if len(self._heap) > SPARE + 2 * len(self.heads):
                self._heap = [(head, home) for home, (_, head) in self.heads.items() if head is not None]
                heapq.heapify(self._heap)

    def forget(self, number: int) -> None:
        """Forget what was known up to a number."""
        self.heads = {home: known for home, known in self.heads.items() if known[0] > number}

    def best(self, count: int = 2) -> list[tuple[Head, str]]:
        """Return the best heads, each of another home."""
        found: list[tuple[Head, str]] = []
        while self._heap and len(found) < count:
            head, home = entry = heapq.heappop(self._heap)
            if self.heads.get(home, (0, None))[1] == head and entry not in found:
                found.append(entry)
        for entry in found:
            heapq.heappush(self._heap, entry)
        return found


class Hints:
    """The queues of the lanes that this process claims from."""

    def __init__(self) -> None:
        self._queues: dict[Place, _Queue] = defaultdict(_Queue)
        self._routes: dict[str, set[str]] = defaultdict(set)
        self._known: set[str] = set()

    def know(self, lanes: Iterable[str]) -> bool:
        """Whether all of these lanes were looked at, and followed since."""
        return self._known.issuperset(lanes)

    def looked_at(self, lanes: Iterable[str], number: int, notes: Iterable[Note]) -> None:
        """Take in a look at lanes: what it did not find is gone, unless something newer is known."""
        self._known.update(lanes)
        for lane in lanes:
            for route in self._routes[lane]:
                self._queues[lane, route].forget(number)
        for note in notes:
            self.note(note)

    def note(self, note: Note) -> None:
        """Take in how one queue begins."""
        if note.lane in self._known:
            self._routes[note.lane].add(note.route)
            self._queues[note.lane, note.route].note(note)

    def forget(self, lane: str = "") -> None:
        """Forget a lane, or everything."""
        for each in [lane] if lane else list(self._known):
            self._known.discard(each)
            for route in self._routes.pop(each, ()):
                del self._queues[each, route]

    def best(self, claim: Claim) -> Best | None:
        """Return where to claim first."""
        found: list[tuple[Head, str]] = []
        for lane in claim.lanes:
            for route in self._routes.get(lane, ()):
                if serves(claim.kinds, claim.capabilities, route):
                    found += self._queues[lane, route].best()
        if not found:
            return None
        found.sort()
        home = found[0][1]
        return Best(home, next((head for head, other in found if other != home), None))


@lru_cache(maxsize=4096)  # the same workers ask for the same routes again and again
def serves(kinds: tuple[str, ...] | None, capabilities: tuple[str, ...], route: str) -> bool:
    """Whether a worker may run what lies in a route."""
    kind, _, needed = route.partition("\0")
    return (kinds is None or kind in kinds) and set(needed.split(",") if needed else ()) <= set(capabilities)
