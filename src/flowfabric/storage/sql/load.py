"""Load what a workspace needs: turn its read requests into statements, and rows into records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final

from flowfabric.model.indexes import due_entry
from flowfabric.model.limits import MAX_INT
from flowfabric.model.machine.workspace import Head, LoadRequest, Workspace
from flowfabric.model.operations.read_list import (
    LOOK_AHEAD,
    FeedEntry,
    ListExecutions,
    found_ids,
    id_page,
    matches,
    prefix_bounds,
)
from flowfabric.model.presence import MOST_GROUPS, Group, Serving
from flowfabric.model.records import Execution, Payload, Queue, Worker
from flowfabric.model.state import Public
from flowfabric.model.views import StepHead
from flowfabric.storage.merging import merged, share
from flowfabric.storage.sql.cache import Cache
from flowfabric.storage.sql.codec import decode
from flowfabric.storage.sql.requests import Fetch, Gather, Plan, Row

SEPARATOR: Final = "\x1f"
"""Joins the parts of the key of an idempotency record; only the last part may hold control characters."""


FEW_ROUTES: Final = 4


class Loader:
    """Loads for one group, and keeps the integer keys of executions for saving."""

    def __init__(self, space: Workspace, cache: Cache) -> None:
        self.space = space
        self.keys: dict[str, int] = {}
        """The integer key of every execution that was loaded."""
        self._cache = cache

    def load(self, request: LoadRequest) -> Plan[None]:
        """Read the records and index entries that the workspace needs, one statement for each kind."""
        by_kind: dict[str, list[Row]] = defaultdict(list)
        for kind, key in request.reads:
            by_kind[kind].append(key)
        executions = by_kind.pop("execution", None)
        if executions:  # first: the lock of an execution protects what belongs to it
            yield from self._executions(executions)
        for kind, keys in by_kind.items():
            special = _SPECIAL.get(kind)
            if special is not None:
                yield from special(self, keys)
            elif kind.endswith("*"):
                yield from self._children(kind, keys)
            else:
                yield from self._records(kind, keys)
        for head, count in request.heads.items():
            yield from self._head(head, count)
        for lane_id, count in request.claim_capacity.items():
            yield from self._heads_of(lane_id, count)

    def _records(self, kind: str, keys: list[Row]) -> Plan[None]:
        answers = yield Fetch(kind, keys)
        for key, rows in zip(keys, answers, strict=True):
            self.space.learn((kind, key), decode(kind, rows[0][0]) if rows else None)

    def _children(self, kind: str, keys: list[Row]) -> Plan[None]:
        single = kind[:-1]
        answers = yield Fetch(kind, keys)
        for key, rows in zip(keys, answers, strict=True):
            for tail, record in rows:
                self.space.learn((single, (*key, tail)), decode(single, record))
            self.space.learn((kind, key), [(tail,) for tail, _ in rows])

    def _executions(self, keys: list[Row]) -> Plan[None]:
        unknown: list[Row] = []
        leased = self._cache.leased
        for key in keys:
            known = leased.get(key[0])
            if known is None:
                unknown.append(key)
            else:
                self.keys[key[0]] = known[0]
                self.space.learn(("execution", key), known[1])
        if unknown:
            yield from self._gather(unknown)

    def _gather(self, keys: list[Row]) -> Plan[None]:
        rows = yield Gather("executions", [key[0] for key in keys])
        found = {row[0] for row in rows}
        for row in rows:
            self._learn_execution(*row)
        for key in keys:
            if key[0] not in found:
                self.space.learn(("execution", key), None)

    def _learn_execution(self, execution_id: str, execution_key: int, record: bytes) -> Execution:
        run: Execution = decode("execution", record)
        self.keys[execution_id] = execution_key
        self.space.learn(("execution", (execution_id,)), run)
        return run

    def _payloads(self, keys: list[Row]) -> Plan[None]:
        answers = yield Fetch("payload", keys)
        for key, rows in zip(keys, answers, strict=True):
            self.space.learn(("payload", key), Payload(rows[0][1], rows[0][2]) if rows else None)

    def _memos(self, keys: list[Row]) -> Plan[None]:
        answers = yield Fetch("memo", [(SEPARATOR.join(key),) for key in keys])
        for key, rows in zip(keys, answers, strict=True):
            self.space.learn(("memo", key), decode("memo", rows[0][0]) if rows else None)

    def _lane_records(self, keys: list[Row]) -> Plan[None]:
        unknown = [key for key in keys if key[0] not in self._cache.lanes]
        if unknown:
            yield from self._records("lane", unknown)
            for (lane_id,) in unknown:
                self._cache.lanes[lane_id] = self.space.current["lane", (lane_id,)]
        for key in keys:
            self.space.learn(("lane", key), self._cache.lanes[key[0]])

    def _routes_of(self, keys: list[Row]) -> Plan[None]:
        for key in keys:
            routes = self._cache.routes_of(key[0])
            if routes is None:
                (rows,) = yield Fetch("routes", [key])
                waiting = {self._route(*row[:4]): row[4] for row in rows}
                self._cache.note_waiting(key[0], waiting)
                routes = tuple(waiting)
            self.space.learn(("routes", key), routes)

    def _route(self, route_id: int, lane: str, kind: str, capabilities: str) -> Queue:
        route = self._cache.routes.get(route_id)
        if route is None:
            route = Queue(lane, kind, tuple(capabilities.split(",")) if capabilities else ())
            self._cache.note_route(route_id, route)
        return route

    def _leases(self, keys: list[Row]) -> Plan[None]:
        for key in keys:
            instance, claim_id = key
            question = Fetch("all leases", [(instance,)]) if claim_id is None else Fetch("leases", [key])
            (rows,) = yield question
            runs = [self._learn_execution(*row) for row in rows]
            self.space.learn(("leases", key), tuple(sorted(run.execution_id for run in runs)))

    def _heads_of(self, lane_id: str, count: int) -> Plan[None]:
        """Load the heads of the queues that a claim reads next, if they are few: that saves a round."""
        routes: tuple[Queue, ...] = self.space.current.get(("routes", (lane_id,)), ())
        if len(routes) <= FEW_ROUTES:
            for route in routes:
                yield from self._head((route, ""), count)

    def _head(self, head: Head, count: int) -> Plan[None]:
        route, namespace = head
        route_id = self._cache.route_ids.get(route)
        if route_id is None:  # it came into being in this group: the database holds nothing of it
            self.space.learn_head(head, (), complete=True)
            return
        if namespace:
            (rows,) = yield Fetch("head of namespace", [(route_id, namespace, count)])
        else:
            (rows,) = yield Fetch("head", [(route_id, count)])
        for execution_id, execution_key, record, data, policy in rows:
            self._learn_execution(execution_id, execution_key, record)
            self.space.learn(("payload", (execution_id,)), Payload(data, policy))
        self.space.learn_head(head, [row[0] for row in rows], complete=len(rows) < count)

    def _step_heads(self, kind: str, keys: list[Row]) -> Plan[None]:
        answers = yield Fetch(kind, keys)
        for key, rows in zip(keys, answers, strict=True):
            self.space.learn((kind, key), tuple(StepHead(*row) for row in rows))

    def _heads(self, keys: list[Row]) -> Plan[None]:
        yield from self._step_heads("heads", keys)

    def _steps(self, keys: list[Row]) -> Plan[None]:
        yield from self._step_heads("steps", keys)

    def _inbox(self, keys: list[Row]) -> Plan[None]:
        for key in keys:
            if key[0]:
                (rows,) = yield Fetch("inbox of namespace", [key])
            else:
                (rows,) = yield Fetch("inbox", [key[1:]])
            found = tuple(
                (position, execution_id, decode("waitpoint", record))
                for position, execution_id, record in rows
            )
            self.space.learn(("inbox", key), found)

    def _feed(self, keys: list[Row]) -> Plan[None]:
        answers = yield Fetch("feed", keys)
        gone = yield Fetch("past feed", keys)
        for key, rows, past in zip(keys, answers, gone, strict=True):
            entries = [self._entry(*row) for row in rows]
            entries += (past_entry(*row) for row in past)
            entries.sort(key=lambda entry: entry.position)
            self.space.learn(("feed", key), tuple(entries[: key[1]]))

    def _feed_bounds(self, keys: list[Row]) -> Plan[None]:
        ((bounds,),) = yield Fetch("feed_bounds", keys)
        self.space.learn(("feed_bounds", ()), bounds)

    @staticmethod
    def _entry(position: int, line: bytes, record: bytes) -> FeedEntry:
        run: Execution = decode("execution", record)
        return FeedEntry(
            position,
            run.execution_id,
            run.namespace,
            run.lane_id,
            run.execution_kind,
            run.flow_id,
            decode("history", line),
        )

    def _lanes(self, keys: list[Row]) -> Plan[None]:
        for key in keys:
            # A namespace has no index of its own work by age: then nobody is told since when the oldest waits.
            namespace, after, limit = key
            of, scope = (" of namespace", (namespace,)) if namespace else ("", ())
            (names,) = yield Fetch(f"lane names{of}", [(*scope, after, limit)])
            if not namespace:
                (others,) = yield Fetch("lane records", [(after, limit)])
                names = sorted({*names, *others})[:limit]
            counts: dict[str, list[tuple[Public, int]]] = defaultdict(list)
            if names:
                (tallies,) = yield Fetch(f"tallies{of}", [(*scope, *names[0], *names[-1])])
                for lane, state, count in tallies:
                    counts[lane].append((Public(state), count))
            oldest: list[list[Row]] = [[] for _ in names]
            if not namespace:
                oldest = yield Fetch("oldest waiting", names)
            lanes = tuple(
                (lane, tuple(counts[lane]), rows[0][0] if rows else 0)
                for (lane,), rows in zip(names, oldest, strict=True)
            )
            self.space.learn(("lanes", key), lanes)

    def _workers(self, keys: list[Row]) -> Plan[None]:
        for key in keys:
            namespace, after_namespace, after, limit = key
            if namespace:
                question = Fetch("workers of namespace", [(self.space.now, namespace, after, limit)])
            else:
                question = Fetch("workers", [(self.space.now, after_namespace, after, limit)])
            (rows,) = yield question
            self.space.learn(("workers", key), tuple(decode("worker", row[0]) for row in rows))

    def _serving(self, keys: list[Row]) -> Plan[None]:
        """Count the workers of a lane by what they take, and read one worker of each group."""
        for key in keys:
            (rows,) = yield Fetch("serving", [(*key, self.space.now, MOST_GROUPS + 1)])
            some = rows[:MOST_GROUPS]
            answers = yield Fetch("worker", [(key[0], instance) for _, instance in some])
            workers: list[Worker] = [decode("worker", found[0][0]) for found in answers]
            groups = [
                Group(one.capabilities, one.kinds, count)
                for (count, _), one in zip(some, workers, strict=True)
            ]
            self.space.learn(("serving", key), Serving(tuple(groups), len(rows) == len(some)))

    def _held(self, keys: list[Row]) -> Plan[None]:
        for key in keys:
            instance, namespace = key
            question = Fetch("held of namespace", [key]) if namespace else Fetch("held", [(instance,)])
            (((count,),),) = yield question
            self.space.learn(("held", key), count)

    def _totals(self, keys: list[Row]) -> Plan[None]:
        answers = yield Fetch("totals", keys)
        for key, rows in zip(keys, answers, strict=True):
            self.space.learn(("totals", key), tuple((Public(state), count) for state, count in rows))

    def _due(self, keys: list[Row]) -> Plan[None]:
        for key in keys:
            before, _ = key
            (rows,) = yield Fetch("due", [key])
            ((later,),) = (yield Fetch("next due", [(before,)]))[0]
            entries = tuple(due_entry(self._learn_execution(*row)) for row in rows)
            self.space.learn(("due", key), (entries, later or 0))

    def _lists(self, keys: list[Row]) -> Plan[None]:
        for (question,) in keys:
            page = yield from self._list(question)
            self.space.learn(("executions", (question,)), page)

    def _queues(self, keys: list[Row]) -> Plan[None]:
        for key in keys:
            lane_id, *after, limit = key
            (routes,) = yield Fetch("routes", [(lane_id,)])
            places = yield from _walk("queue", [row[:1] for row in routes], tuple(after), limit)
            rows = (yield Gather("executions", [place[1] for place in places])) if places else []
            runs = {row[0]: decode("execution", row[2]) for row in rows}
            self.space.learn(("queue", key), tuple(runs[place[1]] for place in places))

    def _partitions(self, keys: list[Row]) -> Plan[None]:
        for (question,) in keys:
            which, scope = _scope("partition", question.namespace)
            (rows,) = yield Fetch(which, [(*scope, *question.bounds(), question.limit + 1)])
            self.space.learn(("partition", (question,)), id_page(question, [row[0] for row in rows]))

    def _found(self, keys: list[Row]) -> Plan[None]:
        for (question,) in keys:
            (tags,) = yield Fetch("partition tags", [()])
            which, scope = _scope("found", question.namespace)
            bounds = [(*scope, *prefix_bounds(question, tag), question.limit) for (tag,) in tags]
            rows = chain.from_iterable((yield Fetch(which, bounds)))
            self.space.learn(("found", (question,)), found_ids(question, [row[0] for row in rows]))

    def _list(self, question: ListExecutions) -> Plan[tuple[tuple[Execution, ...], int]]:
        newest = question.newest_first
        look = question.limit * LOOK_AHEAD
        which, places = _driving(question)
        start = question.after or (MAX_INT if newest else 0)
        # One row more than may be looked at tells whether there is a next page.
        order = "newest" if newest else "oldest"
        rows = yield from _walk(f"{which} {order}", places, (start,), look + 1, descending=newest)
        found: list[Execution] = []
        seen = 0
        while seen < min(len(rows), look) and len(found) < question.limit:
            some = [key for (key,) in rows[seen : min(seen + question.limit, look)]]
            records = dict((yield Gather("listed", some)))
            for key in some:
                if len(found) == question.limit:
                    break
                seen += 1
                run: Execution = decode("execution", records[key])
                if matches(question, run):
                    found.append(run)
        return tuple(found), rows[seen - 1][0] if seen < len(rows) else 0


def _walk(
    which: str, places: Sequence[Row], after: Row, count: int, *, descending: bool = False
) -> Plan[list[Row]]:
    """Read `count` rows in an order that is spread over several ranges of an index, page by page."""
    found: list[Row] = []
    asked, more = share(count, max(len(places), 1)), bool(places)
    while more and len(found) < count:
        pages = yield Fetch(which, [(*place, *after, asked) for place in places])
        rows, more = merged(pages, asked, descending=descending)
        found += rows
        after = found[-1] if found else after
    return found[:count]


def _scope(which: str, namespace: str) -> tuple[str, Row]:
    """Return the name and the first parameters of a statement, for one namespace or for all."""
    return (f"{which} of namespace", (namespace,)) if namespace else (which, ())


def _driving(question: ListExecutions) -> tuple[str, list[Row]]:
    """Return the list that answers a question, and the ranges of its index to read."""
    if question.flow_id:
        which, scope = _scope("list flow", question.namespace)
        return which, [(*scope, question.flow_id)]
    if question.tags:
        which, scope = _scope("list tag", question.namespace)
        return which, [(*scope, *question.tags[0])]
    states = [str(state) for state in dict.fromkeys(question.looked_at() or Public)]
    if question.namespace:
        return "list namespace", [(question.namespace, state) for state in states]
    if question.lane_id:
        return "list lane", [(question.lane_id, state) for state in states]
    return "list", [()]


def past_entry(
    position: int, execution_id: str, namespace: str, lane: str, kind: str, flow_id: str, line: bytes
) -> FeedEntry:
    """Return the feed entry of a purged execution."""
    return FeedEntry(position, execution_id, namespace, lane, kind, flow_id, decode("history", line))


def _tuple_of(kind: str, decoded: str) -> Callable[[Loader, list[Row]], Plan[None]]:
    """Return a function that loads all records which a statement finds."""

    def fetch(loader: Loader, keys: list[Row]) -> Plan[None]:
        answers = yield Fetch(kind, keys)
        for key, rows in zip(keys, answers, strict=True):
            loader.space.learn((kind, key), tuple(decode(decoded, row[0]) for row in rows))

    return fetch


_SPECIAL: Final[dict[str, Callable[[Loader, list[Row]], Plan[None]]]] = {
    "payload": Loader._payloads,  # noqa: SLF001
    "memo": Loader._memos,  # noqa: SLF001
    "lane": Loader._lane_records,  # noqa: SLF001
    "routes": Loader._routes_of,  # noqa: SLF001
    "leases": Loader._leases,  # noqa: SLF001
    "history": _tuple_of("history", "history"),
    "frames": _tuple_of("frames", "frame"),
    "heads": Loader._heads,  # noqa: SLF001
    "steps": Loader._steps,  # noqa: SLF001
    "workers": Loader._workers,  # noqa: SLF001
    "serving": Loader._serving,  # noqa: SLF001
    "held": Loader._held,  # noqa: SLF001
    "totals": Loader._totals,  # noqa: SLF001
    "inbox": Loader._inbox,  # noqa: SLF001
    "feed": Loader._feed,  # noqa: SLF001
    "feed_bounds": Loader._feed_bounds,  # noqa: SLF001
    "lanes": Loader._lanes,  # noqa: SLF001
    "due": Loader._due,  # noqa: SLF001
    "executions": Loader._lists,  # noqa: SLF001
    "queue": Loader._queues,  # noqa: SLF001
    "partition": Loader._partitions,  # noqa: SLF001
    "found": Loader._found,  # noqa: SLF001
}
"""Read requests for more than one record by its key."""
