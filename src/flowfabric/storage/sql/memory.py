"""What a writer remembers between its groups, so that it need not ask again for what it has just written.

It holds only as long as nobody else writes: the store calls `forget` when another connection has committed, and when
a transaction was rolled back.
"""

from __future__ import annotations

from typing import Final

from flowfabric.model.machine.workspace import Move
from flowfabric.model.records import Execution, Lane, Queue, Worker
from flowfabric.model.state import Ownership

MOST_LEASED: Final = 4_096
_LEASED: Final = Ownership.LEASED


class Memory:
    """Routes, lanes, workers and leased executions, as the database holds them."""

    def __init__(self) -> None:
        self.routes: dict[int, Queue] = {}
        self.route_ids: dict[Queue, int] = {}
        self.seen: dict[tuple[str, str], Worker] = {}
        self.lanes: dict[str, Lane | None] = {}
        self.leased: dict[str, tuple[int, Execution]] = {}
        """Leased executions with their integer keys: their holders will come back to them."""
        self._waiting: dict[str, dict[Queue, int]] = {}
        """For lanes whose routes were all loaded: how much waits on each."""

    def forget(self) -> None:
        """Trust nothing any more."""
        for known in (self.routes, self.route_ids, self.seen, self.lanes, self.leased, self._waiting):
            known.clear()

    def note_route(self, route_id: int, route: Queue) -> None:
        """Remember the number of a route, which never changes."""
        self.routes[route_id] = route
        self.route_ids[route] = route_id

    def routes_of(self, lane_id: str) -> tuple[Queue, ...] | None:
        """Name the routes of a lane on which something waits; None when that is not known."""
        waiting = self._waiting.get(lane_id)
        return None if waiting is None else tuple(route for route, n in waiting.items() if n > 0)

    def note_waiting(self, lane_id: str, waiting: dict[Queue, int]) -> None:
        """Remember how much waits on all routes of a lane; on those not named nothing waits."""
        self._waiting[lane_id] = waiting

    def count_waiting(self, route: Queue, n: int) -> None:
        """Follow a change of how much waits."""
        waiting = self._waiting.get(route.lane_id)
        if waiting is not None:
            left = waiting.get(route, 0) + n
            if left:
                waiting[route] = left
            else:
                del waiting[route]

    def note_move(self, k: int, move: Move) -> None:
        """Keep what is leased now, and let go what is not."""
        run = move.new
        if run is not None and run.ownership_state is _LEASED:
            self.leased[move.execution_id] = (k, run)
            if len(self.leased) > MOST_LEASED:
                del self.leased[next(iter(self.leased))]
        else:
            self.leased.pop(move.execution_id, None)
