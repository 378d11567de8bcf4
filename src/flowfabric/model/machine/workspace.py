"""The records, index answers and staged changes of one group of commands. It does no I/O.

A step reads records through the workspace. A read that is not loaded yet stops the step; the store loads all reads of
the group that are missing at once, and the step starts again, which is harmless because a step is pure. What a step
writes is staged, kept when the step succeeds, and dropped when it refuses; later steps of the group see what earlier
ones kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar, overload

from msgspec import Struct

from flowfabric.model.checks import missing_capabilities
from flowfabric.model.command import ReadRequest
from flowfabric.model.errors import FlowFabricError, InternalError, refuse
from flowfabric.model.indexes import Placement, claimable, placement, queue_of
from flowfabric.model.lane_order import lane_position
from flowfabric.model.limits import MAX_INT
from flowfabric.model.record_kinds import EXECUTION, LANE, IndexQuery, Key, RecordKind
from flowfabric.model.records import Event, Execution, Lane, Queue, Record
from flowfabric.model.state import Ownership
from flowfabric.model.tokens import KeyRing

A = TypeVar("A")
T = TypeVar("T", bound=Record | Execution | KeyRing)
Head = tuple[Queue, str]
"""The front of a queue: of one namespace, or of all when that is empty."""
LEASES: Final[IndexQuery[tuple[str, ...]]] = IndexQuery("leases")
"""The executions that a worker instance holds, from one claim or (None) from all."""
QUEUES: Final[IndexQuery[tuple[Queue, ...]]] = IndexQuery("routes")
"""The queues of a lane that hold claimable work."""


class Missing(Exception):
    """A step wants records that are not loaded."""

    def __init__(self, reads: Iterable[ReadRequest] = (), heads: dict[Head, int] | None = None) -> None:
        super().__init__()
        self.reads = set(reads)
        self.heads = heads or {}


class KeptRefusal(Exception):
    """A refusal that is saved together with what the step has staged."""

    def __init__(self, error: FlowFabricError) -> None:
        super().__init__()
        self.error = error


class LoadRequest(NamedTuple):
    """What a store is asked to load before the next round."""

    reads: set[ReadRequest]
    heads: dict[Head, int]
    """For each head, how many of its best executions are wanted in all."""
    claim_capacity: dict[str, int]
    """How many executions claims may take from each lane: a store may load the heads of its queues at once."""


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


class Cause(Struct, frozen=True, gc=False):
    """Who changed an execution, and why, for its history."""

    actor: str
    reason: str = ""
    details: tuple[tuple[str, str], ...] = ()


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
        self.current: dict[ReadRequest, Any] = {}
        self.original: dict[ReadRequest, Any] = {}
        """For every record that was changed: what the store holds."""
        self.effects: list[Effect] = []
        self.events: list[tuple[str, Event]] = []
        """Lines of history, each with the execution that it belongs to."""
        self._staged: dict[ReadRequest, Any] = {}
        self._staged_effects: list[Effect] = []
        self._staged_events: list[tuple[str, Event]] = []
        self._fronts: dict[Head, _Front] = {}
        self._fresh: dict[Queue, dict[str, None]] = {}
        self._fresh_leases: dict[Key, dict[str, None]] = {}
        self._known_queues: dict[Key, list[Queue]] = {}
        self._moves: list[Move] | None = None

    # What the store tells.

    def learn(self, read: ReadRequest, value: Any) -> None:
        """Take in a loaded record (None: absent), or the answer to an index question."""
        self.current.setdefault(read, value)

    def learn_head(self, head: Head, ids: Sequence[str], complete: bool) -> None:
        """Take in the best executions of a queue; their records are learned apart.

        What this group has changed is left out: if it can still be claimed, it is among what became claimable.
        """
        stored = dict.fromkeys(each for each in ids if (EXECUTION, (each,)) not in self.original)
        self._fronts[head] = _Front(stored, len(ids), complete)

    # What a step asks.

    @overload
    def get(self, kind: RecordKind[T], *key: Any) -> T | None: ...
    @overload
    def get(self, kind: IndexQuery[A], *key: Any) -> A: ...
    def get(self, kind: str, *key: Any) -> Any:
        """Return a record (None: there is none) or an answer; stop the step when it is not loaded yet."""
        read = (kind, key)
        if read in self._staged:
            return self._staged[read]
        try:
            return self.current[read]
        except KeyError:
            raise Missing((read,)) from None

    def require(self, kind: RecordKind[T], *key: Any) -> T:
        """Return a record that must exist because another one says so."""
        record = self.get(kind, *key)
        if record is None:
            raise InternalError(f"there is no {kind} {key}")
        return record

    @overload
    def several(self, kind: RecordKind[T], keys: Iterable[Key]) -> list[T | None]: ...
    @overload
    def several(self, kind: IndexQuery[A], keys: Iterable[Key]) -> list[A]: ...
    def several(self, kind: Any, keys: Iterable[Key]) -> list[Any]:
        """Return many records, None where one does not exist; what is not loaded is requested all at once."""
        keys = list(keys)
        missing = {(kind, key) for key in keys} - self.current.keys() - self._staged.keys()
        if missing:
            raise Missing(missing)
        return [self.get(kind, *key) for key in keys]

    def execution(self, execution_id: str) -> Execution:
        """Return an execution or refuse with `execution_not_found`."""
        run = self.get(EXECUTION, execution_id)
        if run is None:
            raise refuse("execution_not_found", field="execution_id")
        return run

    def children(self, kind: RecordKind[T], *prefix: Any) -> list[T]:
        """Return all records of a kind whose keys begin with a prefix, in the order of their keys."""
        keys = {(*prefix, *tail) for tail in self.get(kind.children, *prefix)} | self.written(kind, *prefix)
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
        ids = dict.fromkeys((*self.get(LEASES, *key), *self._fresh_leases.get(key, ())))
        runs = self.several(EXECUTION, [(execution_id,) for execution_id in ids])
        return [
            run
            for run in runs
            if run is not None
            and run.ownership_state is Ownership.LEASED
            and (run.current_worker_instance_id, run.claim_id) == key
        ]

    def queues(
        self, lanes: tuple[str, ...], capabilities: tuple[str, ...], kinds: tuple[str, ...] | None
    ) -> list[Queue]:
        """Return the queues, of lanes that are not paused, from which a worker may take."""
        key = (lanes, capabilities, kinds)
        known = self._known_queues.get(key)
        if known is None:
            known = self._known_queues[key] = [
                queue
                for lane_id in dict.fromkeys(lanes)
                for queue in self._queues_of(lane_id)
                if (kinds is None or queue.execution_kind in kinds)
                and not missing_capabilities(queue.capabilities, capabilities)
            ]
        return known

    def _queues_of(self, lane_id: str) -> Iterable[Queue]:
        lane: Lane | None = self.get(LANE, lane_id)
        if lane is not None and lane.paused_at:
            return ()
        stored: tuple[Queue, ...] = self.get(QUEUES, lane_id)
        fresh = (queue for queue in self._fresh if queue.lane_id == lane_id and queue not in stored)
        return (*stored, *fresh)

    def best(self, queues: Sequence[Queue], namespace: str, count: int) -> list[Execution]:
        """Return the best claimable executions of some queues, without those that carry a live grant."""
        wanted: dict[Head, int] = {}
        found: list[Execution] = []
        ordered = len(queues) == 1
        for queue in queues:
            head = (queue, namespace)
            front = self._fronts.get(head, _UNKNOWN)
            live = self._takeable(front.ids, namespace, count)
            if len(live) < count and not front.complete:
                wanted[head] = count + 2 * front.loaded
            found += live
            fresh = self._fresh.get(queue)
            if fresh:
                ordered = False
                found += self._takeable(fresh, namespace, MAX_INT)
        if wanted:
            raise Missing(heads=wanted)
        if not ordered:
            found.sort(key=lane_position)
        return found[:count]

    def _takeable(self, ids: Iterable[str], namespace: str, count: int) -> list[Execution]:
        live: list[Execution] = []
        for execution_id in ids:
            run: Execution | None = self.get(EXECUTION, execution_id)
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

    def put(self, kind: RecordKind[T], *key: Any, value: T | None) -> None:
        """Write a record; None deletes it."""
        self._staged[kind, key] = value

    def emit(self, kind: str, *key: Any, value: Any = None) -> None:
        """Write something that is never read back in a step."""
        self._staged_effects.append(Effect(kind, key, value))

    def put_execution(self, run: Execution, event: str, cause: Cause, *, before: str) -> Execution:
        """Write a draft of an execution, and the change from the public state `before` into its history."""
        execution_id = run.execution_id
        read = (EXECUTION, (execution_id,))
        assert run is not self.current.get(read), "a step changes copies, never what is stored"
        run.event_count = seq = run.event_count + 1
        self._staged[read] = run
        line = Event(
            seq,
            self.now,
            event,
            run.attempt.index,
            run.current_lease_epoch,
            cause.actor,
            cause.reason,
            before,
            run.public_state,
            cause.details,
        )
        self._staged_events.append((execution_id, line))
        return run

    def touch(self, run: Execution) -> None:
        """Write a draft of an execution whose change is not written into its history."""
        read = (EXECUTION, (run.execution_id,))
        assert run is not self.current.get(read), "a step changes copies, never what is stored"
        run.last_mutation_at = self.now
        self._staged[read] = run

    # What the group does between steps.

    def keep(self) -> None:
        """Make the staged changes of a step part of the group."""
        current, original = self.current, self.original
        for read, value in self._staged.items():
            if read not in original:
                original[read] = current.get(read)
            current[read] = value
            kind = read[0]
            if kind == EXECUTION:
                if value is not None:
                    self._note(value)
            elif kind == LANE:
                self._known_queues.clear()
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
            queue = queue_of(run)
            if queue not in self._fresh:
                self._fresh[queue] = {}
                self._known_queues.clear()
            self._fresh[queue][run.execution_id] = None
        elif run.claim_id and run.ownership_state is Ownership.LEASED:
            key = (run.current_worker_instance_id, run.claim_id)
            self._fresh_leases.setdefault(key, {})[run.execution_id] = None

    def moves(self) -> list[Move]:
        """Return every changed execution with its new places in the indexes; the group must be decided."""
        if self._moves is None:
            current = self.current
            self._moves = moves = []
            for read, old in self.original.items():
                kind, key = read
                if kind == EXECUTION:
                    new = current[read]
                    moves.append(Move(key[0], old, new, None if new is None else placement(new)))
        return self._moves

    def changes(self) -> Iterable[tuple[ReadRequest, Any, Any]]:
        """Yield every changed record: its name, what the store holds, and what it becomes."""
        for read, old in self.original.items():
            yield read, old, self.current[read]


def granted(run: Execution, now: int) -> bool:
    """Whether a live grant keeps the execution for somebody."""
    return bool(run.grant) and run.grant[0].expires_at >= now
