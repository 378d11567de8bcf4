"""Lists of executions: pages of the sorted sets and streams that hold their ids."""

from __future__ import annotations

from collections import defaultdict

from flowfabric.model.ids import execution_id
from flowfabric.model.limits import MAX_INT
from flowfabric.model.operations.read_list import (
    LOOK_AHEAD,
    FindExecutions,
    ListExecutions,
    ListPartition,
    found_ids,
    id_page,
    matches,
)
from flowfabric.model.records import Execution, Queue
from flowfabric.model.state import Public
from flowfabric.storage.valkey import keys
from flowfabric.storage.valkey.executions import arrived
from flowfabric.storage.valkey.keys import Layout
from flowfabric.storage.valkey.requests import EACH, Plan, Request, walk

LaneRow = tuple[str, tuple[tuple[Public, int], ...], int]
Numbered = tuple[int, str]
"""An arrival number or a score, and an id."""


def executions(ids: list[str]) -> Plan[list[Execution]]:
    """Read many executions; those that are gone are left out."""
    if not ids:
        return []
    (values,) = yield [("MGET", *(keys.execution(execution_id) for execution_id in ids))]
    return [arrived(id_, value)[1] for id_, value in zip(ids, values, strict=True) if value is not None]


def routes(lane_id: str) -> Plan[tuple[Queue, ...]]:
    """Read the routes of a lane; one may be empty."""
    (gathered,) = yield [(EACH, "SMEMBERS", keys.routes(lane_id))]
    names = {name for reply in gathered.replies for name in reply}
    return tuple(keys.read_route(lane_id, name) for name in sorted(names))


def page(layout: Layout, question: ListExecutions) -> Plan[tuple[tuple[Execution, ...], int]]:
    """Read a page of executions in the order of their arrival; one index drives it."""
    look = question.limit * LOOK_AHEAD
    rows = yield from _driving(layout, question, look + 1)
    found: list[Execution] = []
    seen = 0
    while seen < min(len(rows), look) and len(found) < question.limit:
        some = [id_ for _, id_ in rows[seen : min(seen + question.limit, look)]]
        (values,) = yield [("MGET", *(keys.execution(id_) for id_ in some))]
        for id_, value in zip(some, values, strict=True):
            if len(found) == question.limit:
                break
            seen += 1
            if value is not None and matches(question, (run := arrived(id_, value)[1])):
                found.append(run)
    return tuple(found), rows[seen - 1][0] if seen < len(rows) else 0


def _sets(question: ListExecutions) -> list[str]:
    """Name the sorted sets that drive a list; none when the order of arrival does."""
    if question.flow_id:
        names = [keys.flow(question.flow_id)]
    elif question.tags:
        names = [keys.tag(*question.tags[0])]
    elif question.lane_id or question.namespace:
        states = dict.fromkeys(question.looked_at() or Public)
        of_all = [keys.state(question.lane_id, state) for state in states]
        names = [keys.any_lane(state) for state in states] if question.namespace else of_all
    else:
        names = []
    return [keys.of_namespace(question.namespace, name) for name in names]


def _driving(layout: Layout, question: ListExecutions, count: int) -> Plan[list[Numbered]]:
    """Read arrival numbers and ids from the one index that drives a list."""
    newest = question.newest_first
    start = question.after or (MAX_INT if newest else 0)
    sets = _sets(question)
    if not sets:
        verb, end = ("XREVRANGE", "-") if newest else ("XRANGE", "+")

        def of_stream(last: Numbered | None, asked: int) -> list[Request]:
            edge = f"(0-{last[0] if last else start}"
            return [(EACH, verb, keys.ARRIVALS, edge, end, "COUNT", asked)]

        return (yield from walk(of_stream, _entries, count, len(layout.homes), descending=newest))
    turn, end = (("REV",), "-inf") if newest else ((), "+inf")

    def of_sets(last: Numbered | None, asked: int) -> list[Request]:
        edge = f"({last[0] if last else start}"
        tail = (edge, end, "BYSCORE", *turn, "LIMIT", 0, asked, "WITHSCORES")
        return [(EACH, "ZRANGE", each, *tail) for each in sets]

    return (yield from walk(of_sets, scored, count, len(layout.homes) * len(sets), descending=newest))


def _entries(entries: list[list[bytes]]) -> list[Numbered]:
    return [(int(entry[0][2:]), entry[1][1].decode()) for entry in entries]  # type: ignore[attr-defined]


def scored(flat: list[bytes]) -> list[Numbered]:
    """Read members with their scores."""
    return [(int(float(flat[at + 1])), flat[at].decode()) for at in range(0, len(flat), 2)]


def queue(lane_id: str, after_score: int, after_id: str, limit: int) -> Plan[tuple[Execution, ...]]:
    """Read what may be claimed on a lane after a place in its order."""
    names = yield from routes(lane_id)
    rows: list[Numbered] = []
    for route in names:
        rows += yield from _after(keys.route(route), (after_score, after_id), limit)
    runs = yield from executions([execution_id for _, execution_id in sorted(rows)[:limit]])
    return tuple(runs)


def _after(name: str, start: Numbered, limit: int) -> Plan[list[Numbered]]:
    """Read members after a score and a member; those of the same score are in the order of their text."""
    found: list[Numbered] = []
    size = limit + 1
    while True:
        # Those of the first score that were seen before come again, so a page is read whole until it reaches further.
        (gathered,) = yield [
            (EACH, "ZRANGE", name, start[0], "+inf", "BYSCORE", "LIMIT", 0, size, "WITHSCORES")
        ]
        pages = [scored(reply) for reply in gathered.replies]
        found = sorted(row for page in pages for row in page if row > start)
        full = [page for page in pages if len(page) >= size]
        if not full:
            return found[:limit]
        edge = min(page[-1] for page in full)
        sure = [row for row in found if row <= edge]
        if len(sure) >= limit:
            return sure[:limit]
        size *= 2


def partition(question: ListPartition) -> Plan[tuple[tuple[str, ...], str]]:
    """Read a page of the ids of one partition, in the order of their text."""
    low, _ = question.bounds()
    start = low.rpartition(":")[2]
    key = keys.partition(question.partition, question.namespace)
    edge = f"({start}" if start else "-"
    (members,) = yield [("ZRANGE", key, edge, "+", "BYLEX", "LIMIT", 0, question.limit + 1)]
    return id_page(question, [execution_id(question.partition, member.decode()) for member in members])


def found(layout: Layout, question: FindExecutions) -> Plan[tuple[str, ...]]:
    """Read ids by the beginning of their UUID: a range of the ids of each partition."""
    low, high = f"[{question.prefix}", f"({question.prefix}g"
    pages = yield [
        ("ZRANGE", keys.partition(index, question.namespace), low, high, "BYLEX", "LIMIT", 0, question.limit)
        for index in range(layout.width)
    ]
    ids = [execution_id(index, member.decode()) for index, members in enumerate(pages) for member in members]
    return found_ids(question, ids)


def lanes(layout: Layout, namespace: str, after: str, limit: int) -> Plan[tuple[LaneRow, ...]]:
    """Read a page of lanes with their counts and, unless it is for one namespace, since when the oldest waits."""
    tallies, named = yield [(EACH, "HGETALL", keys.TALLY), ("HKEYS", layout.common + keys.LANES)]
    counts: dict[str, dict[Public, int]] = defaultdict(dict)
    moves = [move for flat in tallies.replies for move in zip(flat[::2], flat[1::2], strict=True)]
    for (lane_id, of, state), n in keys.tallied(moves).items():
        if namespace in {"", of} and lane_id > after:
            known = counts[lane_id]
            known[Public(state)] = known.get(Public(state), 0) + n
    shown = {
        lane_id: tuple(sorted((state, n) for state, n in found.items() if n))
        for lane_id, found in counts.items()
    }
    if namespace:
        rows = [(lane_id, found, 0) for lane_id, found in sorted(shown.items()) if found]
        return tuple(rows[:limit])
    others = (name for name in map(bytes.decode, named) if name > after)
    names = sorted({*shown, *others})[:limit]
    oldest = yield from _oldest_waiting(names)
    return tuple((name, shown.get(name, ()), oldest[name]) for name in names)


def _oldest_waiting(names: list[str]) -> Plan[dict[str, int]]:
    if not names:
        return {}
    firsts = yield [(EACH, "ZRANGE", keys.state(name, Public.WAITING), 0, 0, "WITHSCORES") for name in names]
    heads = [min((row for reply in first.replies for row in scored(reply)), default=None) for first in firsts]
    values = yield [("GET", keys.execution(head[1] if head else "")) for head in heads]
    return {
        name: arrived("", value)[1].created_at if value else 0
        for name, value in zip(names, values, strict=True)
    }
