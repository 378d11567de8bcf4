"""Save what a group changed. Index columns, counts and queues follow from the records."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final

from msgspec.structs import astuple

from flowfabric.model.indexes import Placement, claimable, opens, queue_of
from flowfabric.model.machine.workspace import Effect, Move, Workspace
from flowfabric.model.presence import expires_at, presence, presence_key, unwritten
from flowfabric.model.records import Event, Execution, Payload, Queue, Worker
from flowfabric.model.views import head_of
from flowfabric.storage.sql.cache import Cache
from flowfabric.storage.sql.codec import decode, encode
from flowfabric.storage.sql.load import SEPARATOR
from flowfabric.storage.sql.requests import Ask, Fetch, Plan, Row, Write
from flowfabric.storage.sql.statements import NO_SCORE, OWNED

Change = tuple[Row, Any, Any]
"""The key of a record, the stored record, and the new one."""


def index_columns(place: Placement) -> Row:
    """Return the parameters that index an execution: state, claim_score, due, holder, claim_id."""
    return (
        str(place.state),  # a plain text: drivers look long at what is a subclass
        place.score if place.claimable else NO_SCORE,
        place.due_at,
        place.lease_of,
        place.claim_id,
    )


class Saver:
    """Saves one group."""

    def __init__(self, space: Workspace, keys: dict[str, int], cache: Cache) -> None:
        self.space = space
        self._keys = keys
        self.cache = cache

    def save(self) -> Plan[None]:
        """Write everything that the group changed."""
        changes: dict[str, list[Change]] = defaultdict(list)
        current = self.space.current
        for need, old in self.space.original.items():
            kind, key = need
            if kind != "execution":
                changes[kind].append((key, old, current[need]))
        effects: dict[str, list[Effect]] = defaultdict(list)
        for effect in self.space.effects:
            effects[effect.kind].append(effect)
        moves = self.space.moves()
        if moves:
            yield from self._executions(moves)
        if self.space.events:
            yield from self._events(self.space.events)
        # Always in the same order, so that transactions which lock rows as they write do not deadlock.
        for kind, save in _SAVERS.items():
            if kind in changes:
                yield from save(self, changes[kind])
        for kind, follow in _EFFECTS.items():
            if kind in effects:
                yield from follow(self, effects[kind])

    def key(self, execution_id: str) -> int:
        """Return the integer key of an execution that this group has loaded or created."""
        return self._keys[execution_id]

    def _executions(self, moves: list[Move]) -> Plan[None]:
        created = [move for move in moves if move.old is None and move.new is not None]
        if created:
            yield from self._insert(created)
        updates: list[Row] = []
        tagged: list[Execution] = []
        keys = self._keys
        note = self.cache.note_move
        for move in moves:
            old, new, entered = move.old, move.new, move.entered
            if old is not None and new is not None and entered is not None:
                key = keys[move.execution_id]
                updates.append((*index_columns(entered), encode(new), key))
                if old.tags is not new.tags and old.tags != new.tags:
                    tagged.append(new)
                note(key, move)
        if updates:
            yield Write("update execution", updates)
        yield from self._retag(tagged)
        yield from self._count(moves)

    def _count(self, moves: list[Move]) -> Plan[None]:
        """Update the counts of lanes and namespaces and the lengths of queues."""
        steps: dict[Row, int] = {}
        for move in moves:
            old, new = move.old, move.new
            run = new if new is not None else old
            if run is not None:
                step = (
                    run.lane_id,
                    run.namespace,
                    run.execution_kind,
                    run.required_capabilities,
                    None if old is None else old.public_state,
                    None if new is None else new.public_state,
                    old is not None and claimable(old),
                    move.entered is not None and move.entered.claimable,
                )
                steps[step] = steps.get(step, 0) + 1
        tallies: Counter[Row] = Counter()
        waiting: Counter[Queue] = Counter()
        for (lane, namespace, kind, capabilities, before, after, was, now), count in steps.items():
            if before is not None:
                tallies[lane, namespace, str(before)] -= count
            if after is not None:
                tallies[lane, namespace, str(after)] += count
            waiting[Queue(lane, kind, capabilities)] += (now - was) * count
        counts = sorted((*key, count) for key, count in tallies.items() if count)
        if counts:
            yield Write("add tally", counts)
            yield Write("add total", _totals(tallies))
        queues: list[Row] = []
        for route, count in waiting.items():
            if count:
                queues.append(((yield from self._route_id(route)), count))
                self.cache.count_waiting(route, count)
        if queues:
            yield Write("add waiting", [(count, route_id) for route_id, count in sorted(queues)])

    def _insert(self, moves: list[Move]) -> Plan[None]:
        key = (yield Ask("allocate", (len(moves), "execution")))[0][0] - len(moves)
        rows: list[Row] = []
        tags: list[Row] = []
        for move in moves:
            run = move.new
            assert run is not None
            assert move.entered is not None
            key += 1
            self._keys[run.execution_id] = key
            route_id = yield from self._route_id(queue_of(run))
            rows.append(
                (
                    key,
                    run.execution_id,
                    run.namespace,
                    run.lane_id,
                    run.flow_id,
                    run.created_at,
                    route_id,
                    *index_columns(move.entered),
                    encode(run),
                )
            )
            tags.extend((key, run.namespace, *tag) for tag in run.tags)
        yield Write("insert execution", rows)
        if tags:
            yield Write("insert tag", tags)

    def _retag(self, runs: list[Execution]) -> Plan[None]:
        if runs:
            yield Write("delete tag", [(self.key(run.execution_id),) for run in runs])
            rows = [(self.key(run.execution_id), run.namespace, *tag) for run in runs for tag in run.tags]
            yield Write("insert tag", rows)

    def _route_id(self, route: Queue) -> Plan[int]:
        known = self.cache.route_ids.get(route)
        if known is not None:
            return known
        row = (route.lane_id, route.execution_kind, ",".join(route.capabilities))
        yield Write("add route", [row])
        route_id: int = (yield Ask("find route", row))[0][0]
        self.cache.note_route(route_id, route)
        return route_id

    def _payloads(self, changes: list[Change]) -> Plan[None]:
        rows: list[Row] = []
        for key, _, new in changes:
            assert isinstance(new, Payload)
            rows.append((self.key(key[0]), bytearray(new.input), bytearray(new.policy_json)))
        yield Write("insert payload", rows)

    def _waitpoints(self, changes: list[Change]) -> Plan[None]:
        """Save waitpoints; one that opens becomes the last of the inbox, so that paging readers find it."""
        last = [change for change in changes if opens(change[1], change[2])]
        if last:
            before = (yield Ask("allocate", (len(last), "waitpoint")))[0][0] - len(last)
            yield Write(
                "put waitpoint",
                [
                    (
                        self.key(key[0]),
                        self._namespace(key[0]),
                        key[1],
                        int(new.state != "closed"),
                        encode(new),
                        before + place,
                    )
                    for place, (key, _, new) in enumerate(last, 1)
                ],
            )
        known = [
            (int(new.state != "closed"), encode(new), self.key(key[0]), key[1])
            for key, old, new in changes
            if not opens(old, new)
        ]
        if known:
            yield Write("update waitpoint", known)

    def _namespace(self, execution_id: str) -> str:
        run: Execution = self.space.current["execution", (execution_id,)]
        return run.namespace

    def _memos(self, changes: list[Change]) -> Plan[None]:
        rows = [(SEPARATOR.join(key), new.expires_at, encode(new)) for key, _, new in changes]
        yield Write("put memo", rows)

    def _workers(self, changes: list[Change]) -> Plan[None]:
        for key, _, new in changes:
            if new is None:
                self.cache.seen.pop((key[0], key[1]), None)
            else:
                self.cache.seen[key[0], key[1]] = new
        put = [(*key, expires_at(new), encode(new)) for key, _, new in changes if new is not None]
        if put:
            yield Write("put worker", put)
        yield from _serve(changes)
        gone = [key for key, _, new in changes if new is None]
        if gone:
            yield Write("drop worker", gone)

    def _events(self, events: list[tuple[str, Event]]) -> Plan[None]:
        before = (yield Ask("allocate", (len(events), "history")))[0][0] - len(events)
        keys = self._keys
        yield Write(
            "insert history",
            [
                (before + place, keys[execution_id], event.seq, encode(event))
                for place, (execution_id, event) in enumerate(events, 1)
            ],
        )

    def _frames(self, effects: list[Effect]) -> Plan[None]:
        rows: list[Row] = []
        for (execution_id, attempt), frame in ((effect.key, effect.value) for effect in effects):
            rows.append((self.key(execution_id), attempt, frame.number, frame.ms, frame.seq, encode(frame)))
        yield Write("insert frame", rows)

    def _trims(self, effects: list[Effect]) -> Plan[None]:
        rows = [(self.key(effect.key[0]), effect.key[1], effect.value) for effect in effects]
        yield Write("trim frame", rows)

    def _drop_steps(self, effects: list[Effect]) -> Plan[None]:
        yield Write("delete step", [(self.key(effect.key[0]),) for effect in effects])

    def _purges(self, effects: list[Effect]) -> Plan[None]:
        past: list[Row] = []
        for run in (effect.value for effect in effects):
            told = (run.execution_id, run.namespace, run.lane_id, run.execution_kind, run.flow_id)
            past.append((self.space.now, *told, self.key(run.execution_id)))
        yield Write("keep past", past)
        rows = [(self.key(effect.key[0]),) for effect in effects]
        for table in OWNED:
            yield Write(f"delete {table}", rows)
        yield Write("delete execution", rows)

    def _sights(self, effects: list[Effect]) -> Plan[None]:
        written: dict[Row, Change] = {}
        for claim in unwritten((effect.key, effect.value) for effect in effects):
            key = presence_key(claim)
            known = written[key][2] if key in written else self.cache.seen.get(key)
            if known is not None and presence(claim, known, self.space.now) is None:
                continue
            if key in written:
                stored = known
            else:
                (rows,) = yield Fetch("worker", [key])
                stored = decode("worker", rows[0][0]) if rows else None
            new = presence(claim, stored, self.space.now)
            if new is not None:
                written[key] = (key, stored, new)
            elif stored is not None:
                self.cache.seen[key] = stored
        if written:
            yield from self._workers(list(written.values()))


def _totals(tallies: Counter[Row]) -> list[Row]:
    """Sum the counts of lanes for each namespace, and for all ('')."""
    sums: Counter[Row] = Counter()
    for (_, namespace, state), count in tallies.items():
        sums[namespace, state] += count
        sums["", state] += count
    return sorted((*key, count) for key, count in sums.items() if count)


def _serve(changes: list[Change]) -> Plan[None]:
    """Update the index of workers by lane."""
    put: list[Row] = []
    gone: set[Row] = set()
    for key, old, new in changes:
        if old is not None:
            gone |= _served(key, old)
        if new is not None:
            rows = _served(key, new)
            put += ((*row, expires_at(new)) for row in rows)
            gone -= rows
    if gone:
        yield Write("drop serving", sorted(gone))
    if put:
        yield Write("put serving", put)


def _served(key: Row, worker: Worker) -> set[Row]:
    profile = blake2b(repr((worker.capabilities, worker.kinds)).encode(), digest_size=16).digest()
    return {(key[0], lane, profile, key[1]) for lane in worker.lanes}


Save = Callable[[Saver, list[Change]], Plan[None]]


def _owned(kind: str) -> Save:
    """Return a function that saves records whose keys begin with their execution."""

    def save(saver: Saver, changes: list[Change]) -> Plan[None]:
        put = [(saver.key(key[0]), *key[1:], encode(new)) for key, _, new in changes if new is not None]
        if put:
            yield Write(f"put {kind}", put)
        gone = [(saver.key(key[0]), *key[1:]) for key, _, new in changes if new is None]
        if gone:
            yield Write(f"drop {kind}", gone)

    return save


def _steps(saver: Saver, changes: list[Change]) -> Plan[None]:
    put = [
        (saver.key(key[0]), *astuple(head_of(new)), encode(new)) for key, _, new in changes if new is not None
    ]
    if put:
        yield Write("put step", put)
    gone = [(saver.key(key[0]), key[1]) for key, _, new in changes if new is None]
    if gone:
        yield Write("drop step", gone)


def _lanes(saver: Saver, changes: list[Change]) -> Plan[None]:
    for key, _, new in changes:
        saver.cache.lanes[key[0]] = new
    yield from _plain("lane")(saver, changes)


def _plain(kind: str) -> Save:
    """Return a function that saves records which belong to no execution."""

    def save(_: Saver, changes: list[Change]) -> Plan[None]:
        put = [(*key, encode(new)) for key, _, new in changes if new is not None]
        if put:
            yield Write(f"put {kind}", put)
        gone = [key for key, _, new in changes if new is None]
        if gone:
            yield Write(f"drop {kind}", gone)

    return save


_SAVERS: Final[dict[str, Save]] = {
    "payload": Saver._payloads,  # noqa: SLF001
    "waitpoint": Saver._waitpoints,  # noqa: SLF001
    "memo": Saver._memos,  # noqa: SLF001
    "step": _steps,
    "lane": _lanes,
    "worker": Saver._workers,  # noqa: SLF001
    **{kind: _plain(kind) for kind in ("keyring", "token", "kind", "kind_names", "kind_namespaces")},
    **{kind: _owned(kind) for kind in ("result", "attempt", "suspension", "signal", "stream", "summary")},
}
_EFFECTS: Final[dict[str, Callable[[Saver, list[Effect]], Plan[None]]]] = {
    "frame": Saver._frames,  # noqa: SLF001
    "trim": Saver._trims,  # noqa: SLF001
    "drop_steps": Saver._drop_steps,  # noqa: SLF001
    "purge": Saver._purges,  # noqa: SLF001
    "seen": Saver._sights,  # noqa: SLF001
}
