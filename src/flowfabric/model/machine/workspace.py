"""The table on which one group of commands is decided. It does no I/O.

A step asks the workspace for records; what is not loaded yet it notes as a wish and stops the step. The store loads all
wishes of the group at once and the step starts again, which is harmless because a step is pure. What a step writes is
staged, kept when the step succeeds, and dropped when it refuses; later steps of the group see what earlier ones kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct

from flowfabric.model.checks import missing_capabilities
<<<<<<< /work/wt/int/src/flowfabric/model/machine/workspace.py
from flowfabric.model.command import Key, Need
from flowfabric.model.errors import FlowFabricError, refuse
from flowfabric.model.indexes import Placement, claimable, placement, route_of, score
=======
from flowfabric.model.command import Command, Need
from flowfabric.model.errors import FlowFabricError, InternalError, refuse
from flowfabric.model.indexes import Placement, claimable, placement, route_of
from flowfabric.model.lane_order import score
>>>>>>> /work/wt/.rx/src/flowfabric/model/machine/workspace.py
from flowfabric.model.limits import MAX_INT
from flowfabric.model.record_kinds import Key
from flowfabric.model.records import Event, Execution, Lane, Record, Route
from flowfabric.model.state import Ownership

Head = tuple[Route, str]
"""The front of a route's queue: of one namespace, or of all when that is empty."""


class Missing(Exception):
    """A step wants records that are not loaded."""

    def __init__(self, needs: Iterable[Need] = (), heads: dict[Head, int] | None = None) -> None:
        super().__init__()
        self.needs = set(needs)
        self.heads = heads or {}


class KeptRefusal(Exception):
    """A refusal that is saved together with what the step has staged."""

    def __init__(self, error: FlowFabricError) -> None:
        super().__init__()
        self.error = error


class Wishes(NamedTuple):
    """What a store is asked to load before the next round."""

    needs: set[Need]
    heads: dict[Head, int]
    """For each head, how many of its best executions are wanted in all."""
    appetite: dict[str, int]
    """Lanes whose queues will be asked for next, and for how much: a store may load their heads at once."""


class Move(Struct, gc=False):
    """One execution of a group, before and after, with its new places in the indexes."""

    execution_id: str
    old: Execution | None
    new: Execution | None
    entered: Placement | None


class Effect(Struct, frozen=True, gc=False):
    """Something that is only written, in order: a frame, a trim, a purge, a sign of life."""

    kind: str
    key: Key
    value: Any = None


class _Front(NamedTuple):
    """The best executions of a head, as far as they were loaded and nobody has taken them."""

    ids: dict[str, None]
    loaded: int = 0
    complete: bool = False


_UNKNOWN: Final = _Front({})


class Workspace:
    """Records, index answers and staged changes of one group of commands."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.chance = 0.0
        """A number in [0, 1) for the running step; drawn by the store, like the time."""
        self.current: dict[Need, Any] = {}
        self.original: dict[Need, Any] = {}
        """For every record that was changed: what the store holds."""
        self.effects: list[Effect] = []
        self.events: list[tuple[str, Event]] = []
        """Lines of history, each with the execution that it belongs to."""
        self._staged: dict[Need, Any] = {}
        self._staged_effects: list[Effect] = []
        self._staged_events: list[tuple[str, Event]] = []
        self._fronts: dict[Head, _Front] = {}
        self._fresh: dict[Route, dict[str, None]] = {}
        self._fresh_leases: dict[Key, dict[str, None]] = {}
        self._routes: dict[Key, list[Route]] = {}
        self._moves: list[Move] | None = None

    # What the store tells.

    def learn(self, need: Need, value: Any) -> None:
        """Take in a loaded record (None: absent), or the answer to an index question."""
        self.current.setdefault(need, value)

    def learn_head(self, head: Head, ids: Sequence[str], complete: bool) -> None:
        """Take in the best executions of a route; their records are learned apart.

        What this group has changed is left out: if it can still be claimed, it is among what became claimable.
        """
        stored = dict.fromkeys(each for each in ids if ("execution", (each,)) not in self.original)
        self._fronts[head] = _Front(stored, len(ids), complete)

    # What a step asks.

    def get(self, kind: str, *key: Any) -> Any:
        """Return a record, None when it does not exist; stop the step when that is not known yet."""
        need = (kind, key)
        if need in self._staged:
            return self._staged[need]
        try:
            return self.current[need]
        except KeyError:
            raise Missing((need,)) from None

    def several(self, kind: str, keys: Iterable[Key]) -> list[Any]:
        """Return many records, None where one does not exist; what is not loaded is wished for all at once."""
        keys = list(keys)
        missing = {(kind, key) for key in keys} - self.current.keys() - self._staged.keys()
        if missing:
            raise Missing(missing)
        return [self.get(kind, *key) for key in keys]

    def execution(self, execution_id: str) -> Execution:
        """Return an execution or refuse with `execution_not_found`."""
        run = self.get("execution", execution_id)
        if run is None:
            raise refuse("execution_not_found", field="execution_id")
        assert isinstance(run, Execution)
        return run

    def children(self, kind: str, *prefix: Any) -> list[Any]:
        """Return all records of a kind whose keys begin with a prefix, in the order of their keys."""
        keys = {(*prefix, *tail) for tail in self.get(f"{kind}*", *prefix)} | self.written(kind, *prefix)
        missing = {(kind, key) for key in keys} - self.current.keys() - self._staged.keys()
        if missing:
            raise Missing(missing)
        found = (self.get(kind, *key) for key in sorted(keys))
        return [record for record in found if record is not None]

    def written(self, kind: str, *prefix: Any) -> set[Key]:
        """Return the keys of all records of a kind, beginning with a prefix, that this group has changed so far."""
        size = len(prefix)
        return {
            key for known, key in (*self.original, *self._staged) if known == kind and key[:size] == prefix
        }

    def leases(self, worker_instance_id: str, claim_id: str) -> list[Execution]:
        """Return the executions that a worker instance holds from one claim."""
        key = (worker_instance_id, claim_id)
        ids = dict.fromkeys((*self.get("leases", *key), *self._fresh_leases.get(key, ())))
        runs: list[Execution] = self.several("execution", [(execution_id,) for execution_id in ids])
        return [
            run
            for run in runs
            if run.ownership_state is Ownership.LEASED
            and (run.current_worker_instance_id, run.claim_id) == key
        ]

    def routes(
        self, lanes: tuple[str, ...], capabilities: tuple[str, ...], kinds: tuple[str, ...] | None
    ) -> list[Route]:
        """Return the routes of lanes that are not paused, as far as kinds and capabilities reach."""
        key = (lanes, capabilities, kinds)
        known = self._routes.get(key)
        if known is None:
            known = self._routes[key] = [
                route
                for lane_id in dict.fromkeys(lanes)
                for route in self._routes_of(lane_id)
                if (kinds is None or route.execution_kind in kinds)
                and not missing_capabilities(route.capabilities, capabilities)
            ]
        return known

    def _routes_of(self, lane_id: str) -> Iterable[Route]:
        lane: Lane | None = self.get("lane", lane_id)
        if lane is not None and lane.paused_at:
            return ()
        stored: tuple[Route, ...] = self.get("routes", lane_id)
        fresh = (route for route in self._fresh if route.lane_id == lane_id and route not in stored)
        return (*stored, *fresh)

    def best(self, routes: Sequence[Route], namespace: str, count: int) -> list[Execution]:
        """Return the best claimable executions of some routes, without those that carry a live grant."""
        wanted: dict[Head, int] = {}
        found: list[Execution] = []
        ordered = len(routes) == 1
        for route in routes:
            head = (route, namespace)
            front = self._fronts.get(head, _UNKNOWN)
            live = self._takeable(front.ids, namespace, count)
            if len(live) < count and not front.complete:
                wanted[head] = count + 2 * front.loaded
            found += live
            fresh = self._fresh.get(route)
            if fresh:
                ordered = False
                found += self._takeable(fresh, namespace, MAX_INT)
        if wanted:
            raise Missing(heads=wanted)
        if not ordered:
            found.sort(key=lambda run: (score(run), run.execution_id))
        return found[:count]

    def _takeable(self, ids: Iterable[str], namespace: str, count: int) -> list[Execution]:
        live: list[Execution] = []
        for execution_id in ids:
            run: Execution | None = self.get("execution", execution_id)
            if (
                run is not None
                and claimable(run)
                and not (run.grant and granted(run, self.now))
                and (not namespace or namespace == run.namespace)
            ):
                live.append(run)
                if len(live) == count:
                    break
        return live

    # What a step writes.

    def put(self, kind: str, *key: Any, value: Record | None) -> None:
        """Write a record; None deletes it."""
        self._staged[kind, key] = value

    def emit(self, kind: str, *key: Any, value: Any = None) -> None:
        """Write something that is never read back in a step."""
        self._staged_effects.append(Effect(kind, key, value))

    def put_execution(
        self,
        run: Execution,
        event: str,
        *,
        actor: str,
        before: str,
        reason: str = "",
        details: tuple[tuple[str, str], ...] = (),
    ) -> Execution:
        """Write a draft of an execution together with the line of history that tells of the change."""
        execution_id = run.execution_id
        need = ("execution", (execution_id,))
        assert run is not self.current.get(need), "a step changes copies, never what is stored"
        run.event_count = seq = run.event_count + 1
        self._staged[need] = run
        line = Event(
            seq, self.now, event, run.attempt.index, run.current_lease_epoch, actor, reason, before, run.public_state,
            details,
        )  # fmt: skip
        self._staged_events.append((execution_id, line))
        return run

    def touch(self, run: Execution) -> None:
        """Write a draft of an execution whose change is not told in its history."""
        need = ("execution", (run.execution_id,))
        assert run is not self.current.get(need), "a step changes copies, never what is stored"
        run.last_mutation_at = self.now
        self._staged[need] = run

    # What the group does between steps.

    def keep(self) -> None:
        """Make the staged changes of a step part of the group."""
        current, original = self.current, self.original
        for need, value in self._staged.items():
            if need not in original:
                original[need] = current.get(need)
            current[need] = value
            kind = need[0]
            if kind == "execution":
                if value is not None:
                    self._note(value)
            elif kind == "lane":
                self._routes.clear()
        self.events += self._staged_events
        if self._staged_effects:
            self.effects += self._staged_effects
        self.drop()

    def drop(self) -> None:
        """Forget the staged changes of a step."""
        self._staged = {}
        self._staged_effects = []
        self._staged_events = []

    def _note(self, run: Execution) -> None:
        for front in self._fronts.values():
            front.ids.pop(run.execution_id, None)
        if claimable(run):
            route = route_of(run)
            if route not in self._fresh:
                self._fresh[route] = {}
                self._routes.clear()
            self._fresh[route][run.execution_id] = None
        elif run.claim_id and run.ownership_state is Ownership.LEASED:
            key = (run.current_worker_instance_id, run.claim_id)
            self._fresh_leases.setdefault(key, {})[run.execution_id] = None

    def moves(self) -> list[Move]:
        """Return every changed execution with its new places in the indexes; the group must be decided."""
        if self._moves is None:
            current = self.current
            self._moves = moves = []
            for need, old in self.original.items():
                kind, key = need
                if kind == "execution":
                    new = current[need]
                    moves.append(Move(key[0], old, new, None if new is None else placement(new)))
        return self._moves

    def changes(self) -> Iterable[tuple[Need, Any, Any]]:
        """Yield every changed record: its name, what the store holds, and what it becomes."""
        for need, old in self.original.items():
            yield need, old, self.current[need]


def granted(run: Execution, now: int) -> bool:
    """Whether a live grant keeps the execution for somebody."""
    return bool(run.grant) and run.grant[0].expires_at >= now
