"""What a writer remembers between its groups, so that it need not read again what it has just written.

It is right only as long as nobody else writes: the store clears it when another connection has committed, and when a
transaction was rolled back. A dialect with several writers gives the unit of work none.
"""

from __future__ import annotations

from typing import Final

from flowfabric.model.machine.workspace import Move
from flowfabric.model.records import Execution, Lane, Queue, Worker
from flowfabric.model.state import Ownership

MOST_LEASED: Final = 4_096
_LEASED: Final = Ownership.LEASED


class Cache:
    """Routes, lanes, workers and leased executions, as the database holds them."""

    def __init__(self) -> None:
        self.routes: dict[int, Queue] = {}
        self.route_ids: dict[Queue, int] = {}
        self.seen: dict[tuple[str, str], Worker] = {}
        self.lanes: dict[str, Lane | None] = {}
        self.leased: dict[str, tuple[int, Execution]] = {}
        """Leased executions with their integer keys: their holders will come back to them."""
        self._waiting: dict[str, dict[Queue, int]] = {}
        """For lanes whose queues were all loaded: how many executions wait on each."""

    def clear(self) -> None:
        """Forget everything."""
        for known in (self.routes, self.route_ids, self.seen, self.lanes, self.leased, self._waiting):
            known.clear()

    def note_route(self, route_id: int, route: Queue) -> None:
        """Store the number of a queue, which never changes."""
        self.routes[route_id] = route
        self.route_ids[route] = route_id

    def routes_of(self, lane_id: str) -> tuple[Queue, ...] | None:
        """Return the queues of a lane on which something waits; None if that is not cached."""
        waiting = self._waiting.get(lane_id)
        return None if waiting is None else tuple(route for route, n in waiting.items() if n > 0)

    def note_waiting(self, lane_id: str, waiting: dict[Queue, int]) -> None:
        """Store how many executions wait on each queue of a lane; on other queues nothing waits."""
        self._waiting[lane_id] = waiting

    def count_waiting(self, route: Queue, n: int) -> None:
        """Change how many executions wait on a queue."""
        waiting = self._waiting.get(route.lane_id)
        if waiting is not None:
            left = waiting.get(route, 0) + n
            if left:
                waiting[route] = left
            else:
                del waiting[route]

    def note_move(self, execution_key: int, move: Move) -> None:
        """Store an execution that is leased now, and drop one that is not."""
        run = move.new
        if run is not None and run.ownership_state is _LEASED:
            self.leased[move.execution_id] = (execution_key, run)
            if len(self.leased) > MOST_LEASED:
                del self.leased[next(iter(self.leased))]
        else:
            self.leased.pop(move.execution_id, None)
