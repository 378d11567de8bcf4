"""Loading: turning what a workspace asks for into calls, and replies into records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from flowfabric.model.command import ReadRequest
from flowfabric.model.indexes import due_entry
from flowfabric.model.machine.workspace import Head, LoadRequest, Workspace
from flowfabric.model.operations.read_list import FeedEntry
from flowfabric.model.presence import MOST_GROUPS, Group, Serving, alive
from flowfabric.model.records import Execution, Payload, Worker
from flowfabric.model.state import Public
from flowfabric.storage.merging import merged, share
from flowfabric.storage.valkey import keys, lists, stored_steps
from flowfabric.storage.valkey.codec import decode, told
from flowfabric.storage.valkey.executions import arrived, newest
from flowfabric.storage.valkey.keys import Layout
from flowfabric.storage.valkey.requests import EACH, PAUSE, Plan, Request, together, walk
from flowfabric.storage.valkey.sight import EVERYTHING, Sight

Row = tuple[Any, ...]

PATIENCE: Final = 50
PAUSE_SECONDS: Final = 0.002
"""How often, and how long each time, a reader of a cluster's feed waits until the place of what it has seen is sure."""


class Loader:
    """Loads for one question, or for a group of commands."""

    def __init__(self, space: Workspace, layout: Layout, sight: Sight = EVERYTHING) -> None:
        self.space = space
        self.layout = layout
        self._sight = sight

    def load(self, request: LoadRequest) -> Plan[None]:
        """Tell the workspace what it asked for; all requests go out together."""
        plans = [self._need(need) for need in request.reads]
        plans += [self._head(head, count) for head, count in request.heads.items()]
        yield from together(plans)

    def _need(self, need: ReadRequest) -> Plan[None]:
        kind, key = need
        special = _SPECIAL.get(kind)
        if special is not None:
            yield from special(self, key)
        elif kind.endswith("*"):
            yield from self._children(kind, key)
        else:
            where, field = self.layout.place(kind, key)
            (value,) = yield [("GET", where) if field is None else ("HGET", where, field)]
            self.space.learn(need, None if value is None else decode(kind, value))

    def _children(self, kind: str, prefix: Row) -> Plan[None]:
        single = kind[:-1]
        (flat,) = yield [("HGETALL", self.layout.family(single, prefix))]
        tails = []
        for at in range(0, len(flat), 2):
            tail = keys.tail(single, flat[at])
            tails.append(tail)
            self.space.learn((single, (*prefix, *tail)), decode(single, flat[at + 1]))
        self.space.learn((kind, prefix), tails)

    def _execution(self, key: Row) -> Plan[None]:
        (value,) = yield [("GET", keys.execution(key[0]))]
        self.space.learn(("execution", key), None if value is None else arrived(key[0], value)[1])

    def _payload(self, key: Row) -> Plan[None]:
        parts, known = yield [("MGET", *keys.payload(key[0])), ("EXISTS", keys.execution(key[0]))]
        self.space.learn(("payload", key), Payload(parts[0] or b"", parts[1] or b"") if known else None)

    def _routes(self, key: Row) -> Plan[None]:
        routes = (yield from lists.routes(key[0])) if self._sight.takes else ()
        self.space.learn(("routes", key), routes)

    def _leases(self, key: Row) -> Plan[None]:
        instance, claim_id = key
        if not self._sight.repeats:
            self.space.learn(("leases", key), ())
            return
        (gathered,) = yield [(EACH, "HGETALL", keys.leases(instance))]
        held = [
            (flat[at].decode(), flat[at + 1].decode())
            for flat in gathered.replies
            for at in range(0, len(flat), 2)
        ]
        ids = sorted(execution_id for execution_id, claim in held if claim_id in {None, claim})
        yield from self._learn_all(ids)
        self.space.learn(("leases", key), tuple(ids))

    def _learn_all(self, ids: list[str]) -> Plan[list[Execution]]:
        runs = yield from lists.executions(ids)
        for run in runs:
            self.space.learn(("execution", (run.execution_id,)), run)
        return runs

    def _head(self, head: Head, count: int) -> Plan[None]:
        route, namespace = head
        size, more, found = count, True, list[str]()
        while len(found) < count and more:
            (gathered,) = yield [(EACH, "ZRANGE", keys.route(route), 0, size - 1, "WITHSCORES")]
            rows, more = merged([lists.scored(reply) for reply in gathered.replies], size)
            if rows and self._sight.hides(*rows[-1]):
                rows, more = [row for row in rows if not self._sight.hides(*row)], False
            runs = yield from self._learn_all([execution_id for _, execution_id in rows])
            found = [run.execution_id for run in runs if namespace in {"", run.namespace}]
            size *= 2
        complete = not more and len(found) <= count
        yield from together([self._payload((execution_id,)) for execution_id in found[:count]])
        self.space.learn_head(head, found[:count], complete)

    def _history(self, key: Row) -> Plan[None]:
        execution_id, after, limit = key
        value, listed = yield [  # in this order: what moves from the record to the list is not missed
            ("GET", keys.execution(execution_id)),
            ("LRANGE", keys.history(execution_id), after, after + limit - 1),
        ]
        older, newer = newest(value) if value is not None else (0, [])
        positions = [int(position) for position in listed[: max(0, older - after)]]
        positions += newer[max(0, after - older) :]
        feed = self.layout.home_of(execution_id) + keys.FEED
        entries = yield [_line(feed, position) for position in positions[:limit]] if positions else []
        self.space.learn(("history", key), tuple(told(found[0][1][1]).event for found in entries if found))

    def _feed(self, key: Row) -> Plan[None]:
        """Read lines in order; on a cluster only those before which nothing can come any more."""
        after, limit = key
        found: list[Row] = []
        asked = share(limit, len(self.layout.homes))
        pauses, more = 0, True
        while more and len(found) < limit:
            (gathered,) = yield [(EACH, "XRANGE", keys.FEED, f"0-{after + 1}", "+", "COUNT", asked)]
            pages = [[(feed_position(row), row) for row in reply] for reply in gathered.replies]
            rows, more = merged(pages, asked)
            sure = [row for row in rows if row[0] <= gathered.upto]
            found += sure
            after = sure[-1][0] if sure else after
            if len(sure) < len(rows) and len(found) < limit:
                pauses += 1
                more = pauses < PATIENCE
                yield [(PAUSE, PAUSE_SECONDS)]
        self.space.learn(("feed", key), tuple(feed_entry(row) for _, row in found[:limit]))

    def _feed_bounds(self, key: Row) -> Plan[None]:
        """Read where the feed begins and ends; whoever goes on from its end misses nothing."""
        for _ in range(PATIENCE):
            floors, newest = yield [
                (EACH, "GET", keys.FEED_FLOOR),
                (EACH, "XREVRANGE", keys.FEED, "+", "-", "COUNT", 1),
            ]
            last = max((feed_position(rows[0]) for rows in newest.replies if rows), default=0)
            if last <= newest.upto:
                break
            yield [(PAUSE, PAUSE_SECONDS)]
        lowest = max((int(floor) for floor in floors.replies if floor), default=0)
        # All that was ever taken out of the feed lies below its floor.
        self.space.learn(("feed_bounds", key), (lowest, max(lowest, min(last, newest.upto))))

    def _frames(self, key: Row) -> Plan[None]:
        execution_id, attempt, from_ms, from_seq, to_ms, to_seq, count = key
        low, high = f"{from_ms}-{from_seq}", f"{to_ms}-{to_seq}"
        (rows,) = yield [("XRANGE", keys.frames(execution_id, attempt), low, high, "COUNT", count)]
        self.space.learn(("frames", key), tuple(decode("frame", row[1][1]) for row in rows))

    def _steps(self, key: Row) -> Plan[None]:
        heads = yield from stored_steps.page(*key)
        self.space.learn(("steps", key), heads)

    def _heads(self, key: Row) -> Plan[None]:
        heads = yield from stored_steps.heads(key[0])
        self.space.learn(("heads", key), heads)

    def _workers(self, key: Row) -> Plan[None]:
        """Read a page in the order of names; those whose time is over are passed by."""
        namespace, *after, limit = key
        names = self.layout.common + keys.WORKERS_BY_NAME
        start, end = "(" + "\0".join(after), f"({namespace}\1" if namespace else "+"
        found: list[Worker] = []
        more = True
        while more and len(found) < limit:
            (some,) = yield [("ZRANGE", names, start, end, "BYLEX", "LIMIT", 0, limit)]
            values = (yield [("HMGET", self.layout.common + keys.WORKERS, *some)])[0] if some else []
            workers: list[Worker] = [decode("worker", value) for value in values if value is not None]
            found += (worker for worker in workers if alive(worker, self.space.now))
            more = len(some) == limit
            start = "(" + some[-1].decode() if some else start
        self.space.learn(("workers", key), tuple(found[:limit]))

    def _serving(self, key: Row) -> Plan[None]:
        """Count the workers of a lane that take the same; one of each group says what that is."""
        namespace, lane_id = key
        lane = self.layout.common + keys.serving(namespace, lane_id)
        living = (f"({self.space.now}", "+inf")
        (profiles,) = yield [("ZRANGE", lane, *living, "BYSCORE", "LIMIT", 0, MOST_GROUPS + 1)]
        members = [f"{lane}\0{profile.decode()}" for profile in profiles[:MOST_GROUPS]]
        asked: list[Request] = [("ZCOUNT", each, *living) for each in members]
        asked += (("ZRANGE", each, 0, 0, "REV") for each in members)
        replies: list[Any] = (yield asked) if asked else []
        counted, newest = replies[: len(members)], replies[len(members) :]
        some = [(n, found[0]) for n, found in zip(counted, newest, strict=True) if n and found]
        fields = [f"{namespace}\0{instance.decode()}" for _, instance in some]
        values = (yield [("HMGET", self.layout.common + keys.WORKERS, *fields)])[0] if fields else []
        groups = []
        for (n, _), value in zip(some, values, strict=True):
            if value is not None:  # gone since
                worker: Worker = decode("worker", value)
                groups.append(Group(worker.capabilities, worker.kinds, n))
        self.space.learn(("serving", key), Serving(tuple(groups), len(profiles) <= MOST_GROUPS))

    def _held(self, key: Row) -> Plan[None]:
        instance, namespace = key
        if not namespace:
            (gathered,) = yield [(EACH, "HLEN", keys.leases(instance))]
            self.space.learn(("held", key), sum(gathered.replies))
            return
        (gathered,) = yield [(EACH, "HKEYS", keys.leases(instance))]
        runs = yield from self._learn_all([each.decode() for reply in gathered.replies for each in reply])
        self.space.learn(("held", key), sum(run.namespace == namespace for run in runs))

    def _totals(self, key: Row) -> Plan[None]:
        (gathered,) = yield [(EACH, "HGETALL", keys.total(key[0]))]
        counts: Counter[str] = Counter()
        for flat in gathered.replies:
            for field, n in zip(flat[::2], flat[1::2], strict=True):
                was, state = field.decode().split("\0")
                counts[was] -= int(n)
                counts[state] += int(n)
        self.space.learn(("totals", key), tuple((Public(state), n) for state, n in counts.items() if state))

    def _inbox(self, key: Row) -> Plan[None]:
        namespace, after, limit = key
        inbox = keys.of_namespace(namespace, keys.INBOX)

        def ask(last: tuple[int, str] | None, asked: int) -> list[Request]:
            edge = f"({last[0] if last else after}"
            return [(EACH, "ZRANGE", inbox, edge, "+inf", "BYSCORE", "LIMIT", 0, asked, "WITHSCORES")]

        rows = yield from walk(ask, lists.scored, limit, len(self.layout.homes))
        places = [(position, *member.split("\0")) for position, member in rows]
        requests: list[Request] = [
            ("HGET", *self.layout.place("waitpoint", (execution_id, name)))
            for _, execution_id, name in places
        ]
        values = (yield requests) if requests else []
        found = zip(places, values, strict=True)
        self.space.learn(
            ("inbox", key), tuple((pos, id_, decode("waitpoint", value)) for (pos, id_, _), value in found)
        )

    def _due(self, key: Row) -> Plan[None]:
        before, limit = key
        (gathered,) = yield [(EACH, "ZRANGE", keys.DUE, 0, limit, "WITHSCORES")]
        pages = [lists.scored(reply) for reply in gathered.replies]
        rows = sorted(row for page in pages for row in page)
        later = [at for at, _ in rows if at > before]
        if any(len(page) > limit and page[-1][0] <= before for page in pages):
            # What is due fills a page: what comes after it is asked for.
            tail = (f"({before}", "+inf", "BYSCORE", "LIMIT", 0, 1, "WITHSCORES")
            (gathered,) = yield [(EACH, "ZRANGE", keys.DUE, *tail)]
            later = [at for reply in gathered.replies for at, _ in lists.scored(reply)]
        due = [execution_id for at, execution_id in rows if at <= before]
        runs = yield from self._learn_all(due[:limit])
        self.space.learn(("due", key), (tuple(map(due_entry, runs)), min(later, default=0)))

    def _listed(self, key: Row) -> Plan[None]:
        page = yield from lists.page(self.layout, key[0])
        self.space.learn(("executions", key), page)

    def _queue(self, key: Row) -> Plan[None]:
        runs = yield from lists.queue(*key)
        self.space.learn(("queue", key), runs)

    def _partition(self, key: Row) -> Plan[None]:
        page = yield from lists.partition(key[0])
        self.space.learn(("partition", key), page)

    def _found(self, key: Row) -> Plan[None]:
        ids = yield from lists.found(self.layout, key[0])
        self.space.learn(("found", key), ids)

    def _lanes(self, key: Row) -> Plan[None]:
        rows = yield from lists.lanes(self.layout, *key)
        self.space.learn(("lanes", key), rows)


def _line(feed: str, position: int) -> Request:
    return "XRANGE", feed, f"0-{position}", f"0-{position}"


def feed_position(row: list[Any]) -> int:
    """Read the position of an entry of the feed: it is its id."""
    return int(row[0].partition(b"-")[2])


def feed_entry(row: list[Any]) -> FeedEntry:
    """Read one entry of the feed."""
    line = told(row[1][1])
    return FeedEntry(
        feed_position(row),
        line.execution_id,
        line.namespace,
        line.lane_id,
        line.execution_kind,
        line.flow_id,
        line.event,
    )


_SPECIAL: Final[dict[str, Callable[[Loader, Row], Plan[None]]]] = {
    "execution": Loader._execution,  # noqa: SLF001
    "payload": Loader._payload,  # noqa: SLF001
    "routes": Loader._routes,  # noqa: SLF001
    "leases": Loader._leases,  # noqa: SLF001
    "history": Loader._history,  # noqa: SLF001
    "feed": Loader._feed,  # noqa: SLF001
    "feed_bounds": Loader._feed_bounds,  # noqa: SLF001
    "frames": Loader._frames,  # noqa: SLF001
    "workers": Loader._workers,  # noqa: SLF001
    "steps": Loader._steps,  # noqa: SLF001
    "heads": Loader._heads,  # noqa: SLF001
    "serving": Loader._serving,  # noqa: SLF001
    "held": Loader._held,  # noqa: SLF001
    "totals": Loader._totals,  # noqa: SLF001
    "inbox": Loader._inbox,  # noqa: SLF001
    "due": Loader._due,  # noqa: SLF001
    "executions": Loader._listed,  # noqa: SLF001
    "queue": Loader._queue,  # noqa: SLF001
    "partition": Loader._partition,  # noqa: SLF001
    "found": Loader._found,  # noqa: SLF001
    "lanes": Loader._lanes,  # noqa: SLF001
}
"""Requests for more than one record by its key."""
