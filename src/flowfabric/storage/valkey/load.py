"""Loading: turning the wishes of a workspace into requests, and replies into records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from flowfabric.model.contracts.base import Need
from flowfabric.model.contracts.reads import FeedEntry
from flowfabric.model.machine import Head, Wishes, Workspace
from flowfabric.model.records import Execution, Payload
from flowfabric.storage.valkey import keys, lists
from flowfabric.storage.valkey.codec import arrived, decode, told
from flowfabric.storage.valkey.requests import Plan, Request, together

Row = tuple[Any, ...]


class Loader:
    """Loads for one question."""

    def __init__(self, space: Workspace) -> None:
        self.space = space

    def load(self, wishes: Wishes) -> Plan[None]:
        """Tell the workspace what it wishes to know; all wishes go out together."""
        plans = [self._need(need) for need in wishes.needs]
        plans += [self._head(head, count) for head, count in wishes.heads.items()]
        yield from together(plans)

    def _need(self, need: Need) -> Plan[None]:
        kind, key = need
        special = _SPECIAL.get(kind)
        if special is not None:
            yield from special(self, key)
        elif kind.endswith("*"):
            yield from self._children(kind, key)
        else:
            where, field = keys.place(kind, key)
            (value,) = yield [("GET", where) if field is None else ("HGET", where, field)]
            self.space.learn(need, None if value is None else decode(kind, value))

    def _children(self, kind: str, prefix: Row) -> Plan[None]:
        single = kind[:-1]
        (flat,) = yield [("HGETALL", keys.family(single, prefix))]
        tails = []
        for at in range(0, len(flat), 2):
            tail = keys.tail(single, flat[at])
            tails.append(tail)
            self.space.learn((single, (*prefix, *tail)), decode(single, flat[at + 1]))
        self.space.learn((kind, prefix), tails)

    def _execution(self, key: Row) -> Plan[None]:
        (value,) = yield [("GET", keys.execution(key[0]))]
        self.space.learn(("execution", key), None if value is None else arrived(value)[1])

    def _payload(self, key: Row) -> Plan[None]:
        parts, known = yield [("MGET", *keys.payload(key[0])), ("EXISTS", keys.execution(key[0]))]
        self.space.learn(("payload", key), Payload(parts[0] or b"", parts[1] or b"") if known else None)

    def _routes(self, key: Row) -> Plan[None]:
        routes = yield from lists.routes(key[0])
        self.space.learn(("routes", key), routes)

    def _leases(self, key: Row) -> Plan[None]:
        instance, claim_id = key
        (flat,) = yield [("HGETALL", keys.leases(instance))]
        held = [(flat[at].decode(), flat[at + 1].decode()) for at in range(0, len(flat), 2)]
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
        found: list[str] = []
        offset, complete = 0, False
        while len(found) < count and not complete:
            (page,) = yield [("ZRANGE", keys.route(route), offset, offset + count - 1)]
            offset += len(page)
            complete = len(page) < count
            runs = yield from self._learn_all([member.decode() for member in page])
            found += [run.execution_id for run in runs if namespace in {"", run.namespace}]
        more = complete and len(found) <= count
        for execution_id in found[:count]:
            yield from self._payload((execution_id,))
        self.space.learn_head(head, found[:count], more)

    def _history(self, key: Row) -> Plan[None]:
        execution_id, after, limit = key
        (positions,) = yield [("LRANGE", keys.history(execution_id), after, after + limit - 1)]
        entries = yield [_line(int(position)) for position in positions] if positions else []
        self.space.learn(("history", key), tuple(told(found[0][1][1]).event for found in entries if found))

    def _feed(self, key: Row) -> Plan[None]:
        after, limit = key
        (rows,) = yield [("XRANGE", keys.FEED, f"0-{after + 1}", "+", "COUNT", limit)]
        self.space.learn(("feed", key), tuple(feed_entry(row) for row in rows))

    def _feed_bounds(self, key: Row) -> Plan[None]:
        floor, newest = yield [("GET", keys.FEED_FLOOR), ("XREVRANGE", keys.FEED, "+", "-", "COUNT", 1)]
        lowest = int(floor or 0)  # all that was ever taken out of the feed lies below it
        last = feed_entry(newest[0]).position if newest else 0
        self.space.learn(("feed_bounds", key), (lowest, max(lowest, last)))

    def _frames(self, key: Row) -> Plan[None]:
        execution_id, attempt, from_ms, from_seq, to_ms, to_seq, count = key
        low, high = f"{from_ms}-{from_seq}", f"{to_ms}-{to_seq}"
        (rows,) = yield [("XRANGE", keys.frames(execution_id, attempt), low, high, "COUNT", count)]
        self.space.learn(("frames", key), tuple(decode("frame", row[1][1]) for row in rows))

    def _workers(self, key: Row) -> Plan[None]:
        (flat,) = yield [("HGETALL", keys.WORKERS)]
        found = {tuple(flat[at].decode().split("\0")): flat[at + 1] for at in range(0, len(flat), 2)}
        self.space.learn(("workers", key), tuple(decode("worker", found[name]) for name in sorted(found)))

    def _inbox(self, key: Row) -> Plan[None]:
        after, limit = key
        (flat,) = yield [
            ("ZRANGE", keys.INBOX, f"({after}", "+inf", "BYSCORE", "LIMIT", 0, limit, "WITHSCORES")
        ]
        places = [(int(flat[at + 1]), *flat[at].decode().split("\0")) for at in range(0, len(flat), 2)]
        requests: list[Request] = [
            ("HGET", *keys.place("waitpoint", (execution_id, name))) for _, execution_id, name in places
        ]
        values = (yield requests) if requests else []
        rows = zip(places, values, strict=True)
        self.space.learn(
            ("inbox", key), tuple((pos, id_, decode("waitpoint", value)) for (pos, id_, _), value in rows)
        )

    def _due(self, key: Row) -> Plan[None]:
        before, limit = key
        due, later = yield [
            ("ZRANGE", keys.DUE, "-inf", before, "BYSCORE", "LIMIT", 0, limit),
            ("ZRANGE", keys.DUE, f"({before}", "+inf", "BYSCORE", "LIMIT", 0, 1, "WITHSCORES"),
        ]
        runs = yield from self._learn_all([member.decode() for member in due])
        self.space.learn(("due", key), (tuple(runs), int(later[1]) if later else 0))

    def _listed(self, key: Row) -> Plan[None]:
        page = yield from lists.page(key[0])
        self.space.learn(("executions", key), page)

    def _queue(self, key: Row) -> Plan[None]:
        runs = yield from lists.queue(*key)
        self.space.learn(("queue", key), runs)

    def _partition(self, key: Row) -> Plan[None]:
        page = yield from lists.partition(key[0])
        self.space.learn(("partition", key), page)

    def _lanes(self, key: Row) -> Plan[None]:
        rows = yield from lists.lanes(key[0])
        self.space.learn(("lanes", key), rows)


def _line(position: int) -> Request:
    return "XRANGE", keys.FEED, f"0-{position}", f"0-{position}"


def feed_entry(row: list[Any]) -> FeedEntry:
    """Read one entry of the feed: its id is its position."""
    line = told(row[1][1])
    return FeedEntry(
        int(row[0].partition(b"-")[2]), line.execution_id, line.namespace, line.lane_id, line.execution_kind,
        line.flow_id, line.event,
    )  # fmt: skip


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
    "inbox": Loader._inbox,  # noqa: SLF001
    "due": Loader._due,  # noqa: SLF001
    "executions": Loader._listed,  # noqa: SLF001
    "queue": Loader._queue,  # noqa: SLF001
    "partition": Loader._partition,  # noqa: SLF001
    "lanes": Loader._lanes,  # noqa: SLF001
}
"""Wishes that are more than one record by its key."""
