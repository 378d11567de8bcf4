"""Lists of executions: pages of the sorted sets and streams that hold their ids."""

from __future__ import annotations

from collections import defaultdict

from flowfabric.model.contracts.reads import ListExecutions, ListPartition
from flowfabric.model.limits import MAX_INT
from flowfabric.model.listing import LOOK_AHEAD, id_page, matches, rows_to_look_at
from flowfabric.model.records import Execution, Route
from flowfabric.model.state import Public
from flowfabric.storage.valkey import keys
from flowfabric.storage.valkey.codec import arrived
from flowfabric.storage.valkey.requests import Plan, Request

LaneRow = tuple[str, tuple[tuple[Public, int], ...], int]


def executions(ids: list[str]) -> Plan[list[Execution]]:
    """Read many executions; those that are gone are left out."""
    if not ids:
        return []
    (values,) = yield [("MGET", *(keys.execution(execution_id) for execution_id in ids))]
    return [arrived(value)[1] for value in values if value is not None]


def routes(lane_id: str) -> Plan[tuple[Route, ...]]:
    """Read the routes of a lane; one may be empty."""
    (names,) = yield [("SMEMBERS", keys.routes(lane_id))]
    return tuple(keys.read_route(lane_id, name) for name in sorted(names))


def page(question: ListExecutions) -> Plan[tuple[tuple[Execution, ...], int]]:
    """Read a page of executions in the order of their arrival; one index drives it."""
    look = question.limit * LOOK_AHEAD
    rows = yield from _driving(question, look + 1)
    (values,) = (yield [("MGET", *(keys.execution(id_) for _, id_ in rows))]) if rows else ([],)
    found: list[Execution] = []
    last = 0
    for seen, ((place, _), value) in enumerate(zip(rows, values, strict=True)):
        if seen == look or len(found) == question.limit:
            return tuple(found), last
        last = place
        if value is not None and matches(question, (run := arrived(value)[1])):
            found.append(run)
    return tuple(found), 0


def _driving(question: ListExecutions, count: int) -> Plan[list[tuple[int, str]]]:
    """Read arrival numbers and ids from the one index that drives a list."""
    newest = question.newest_first
    after = question.after or (MAX_INT if newest else 0)
    if question.flow_id:
        sets = [keys.flow(question.flow_id)]
    elif question.tags:
        sets = [keys.tag(*question.tags[0])]
    elif question.lane_id:
        states = dict.fromkeys(question.looked_at() or Public)
        sets = [keys.state(question.lane_id, state) for state in states]
    else:
        edge = f"(0-{after}"
        walk: Request = (
            ("XREVRANGE", keys.ARRIVALS, edge, "-", "COUNT", count)
            if newest
            else ("XRANGE", keys.ARRIVALS, edge, "+", "COUNT", count)
        )
        (entries,) = yield [walk]
        return [(int(entry[0][2:]), entry[1][1].decode()) for entry in entries]
    bounds = (f"({after}", "-inf") if newest else (f"({after}", "+inf")
    turn = ("REV",) if newest else ()
    replies = yield [
        ("ZRANGE", each, *bounds, "BYSCORE", *turn, "LIMIT", 0, count, "WITHSCORES") for each in sets
    ]
    rows = [
        (int(float(flat[at + 1])), flat[at].decode()) for flat in replies for at in range(0, len(flat), 2)
    ]
    return sorted(rows, reverse=newest)[:count]


def queue(lane_id: str, after_score: int, after_id: str, limit: int) -> Plan[tuple[Execution, ...]]:
    """Read what may be claimed on a lane after a place in its order."""
    names = yield from routes(lane_id)
    rows: list[tuple[int, str]] = []
    for route in names:
        rows += yield from _after(keys.route(route), after_score, after_id, limit)
    runs = yield from executions([execution_id for _, execution_id in sorted(rows)[:limit]])
    return tuple(runs)


def _after(key: str, score: int, execution_id: str, limit: int) -> Plan[list[tuple[int, str]]]:
    """Read members after a score and a member; those of the same score are in the order of their text."""
    found: list[tuple[int, str]] = []
    offset = 0
    while True:
        (flat,) = yield [("ZRANGE", key, score, "+inf", "BYSCORE", "LIMIT", offset, limit + 1, "WITHSCORES")]
        size = len(flat) // 2
        rows = [(int(float(flat[2 * at + 1])), flat[2 * at].decode()) for at in range(size)]
        found += [row for row in rows if row > (score, execution_id)]
        offset += size
        if size <= limit or len(found) >= limit:
            return found[:limit]


def partition(question: ListPartition) -> Plan[tuple[tuple[str, ...], str]]:
    """Read a page of the ids of one partition, in the order of their text."""
    low, _ = question.bounds()
    start = low.rpartition(":")[2]
    count = rows_to_look_at(question) + 1
    key = keys.partition(question.partition)
    (members,) = yield [("ZRANGE", key, f"({start}" if start else "-", "+", "BYLEX", "LIMIT", 0, count)]
    ids = [f"{{fp:{question.partition}}}:{member.decode()}" for member in members]
    runs = yield from executions(ids)
    return id_page(question, [(run.execution_id, run.namespace) for run in runs])


def lanes(namespace: str) -> Plan[tuple[LaneRow, ...]]:
    """Read every lane with its counts and, unless it is for one namespace, since when the oldest waits."""
    flat, named = yield [("HGETALL", keys.TALLY), ("HKEYS", keys.LANES)]
    counts: dict[str, dict[Public, int]] = defaultdict(dict)
    for at in range(0, len(flat), 2):
        lane_id, of, state = flat[at].decode().split("\0")
        if namespace in {"", of}:
            known = counts[lane_id]
            known[Public(state)] = known.get(Public(state), 0) + int(flat[at + 1])
    shown = {
        lane_id: tuple(sorted((state, n) for state, n in found.items() if n))
        for lane_id, found in counts.items()
    }
    if namespace:
        return tuple((lane_id, found, 0) for lane_id, found in sorted(shown.items()) if found)
    names = sorted({*shown, *(name.decode() for name in named)})
    oldest = yield from _oldest_waiting(names)
    return tuple((name, shown.get(name, ()), oldest[name]) for name in names)


def _oldest_waiting(names: list[str]) -> Plan[dict[str, int]]:
    if not names:
        return {}
    firsts = yield [("ZRANGE", keys.state(name, Public.WAITING), 0, 0) for name in names]
    ids = [first[0].decode() if first else "" for first in firsts]
    values = yield [("GET", keys.execution(execution_id)) for execution_id in ids]
    return {
        name: arrived(value)[1].created_at if value else 0 for name, value in zip(names, values, strict=True)
    }
