"""Looking at a whole store, for proofs."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, Final

from flowfabric.model.indexes import Placement, placement, queue_of
from flowfabric.model.records import Execution, Payload
from flowfabric.model.state import Public
from flowfabric.storage.base import Dump
from flowfabric.storage.valkey import keys
from flowfabric.storage.valkey.codec import decode
from flowfabric.storage.valkey.executions import arrived, newest
from flowfabric.storage.valkey.load import feed_entry
from flowfabric.storage.valkey.requests import NAMES, Plan, Request

Key = tuple[Any, ...]
_READERS: Final[dict[bytes, Request]] = {
    b"string": ("GET",),
    b"hash": ("HGETALL",),
    b"list": ("LRANGE", 0, -1),
    b"set": ("SMEMBERS",),
    b"zset": ("ZRANGE", 0, -1, "WITHSCORES"),
    b"stream": ("XRANGE", "-", "+"),
}
_UUID: Final = 36
_HOME: Final = re.compile(
    r"ff:(?:\{(?:fp:[0-9]+|ff)\}:)?((?!\{)(?![0-9a-f]{8}-[0-9a-f]{4}-)(?!ids(?::|$)).+)", re.DOTALL
)
_PLAIN: Final = {"lane": keys.LANES, "token": keys.TOKENS, "worker": keys.WORKERS, "kind": keys.KINDS}


def everything() -> Plan[dict[str, Any]]:
    """Read every key of ours: text for strings, dictionaries for hashes and sorted sets, lists for the rest.

    What stands for many executions has its name without the home, and the parts of all homes together.
    """
    (found,) = yield [(NAMES,)]
    names: list[bytes] = sorted(found)
    types = (yield [("TYPE", name) for name in names]) if names else []
    requests: list[Request] = []
    for name, kind in zip(names, types, strict=True):
        verb, *rest = _READERS[kind]
        requests.append((verb, name, *rest))
    values = (yield requests) if names else []
    paired = {b"hash", b"zset"}
    held: dict[str, Any] = {}
    for name, kind, value in zip(names, types, values, strict=True):
        short = _without_home(name.decode())
        part = _pairs(value) if kind in paired else value
        held[short] = _joined(short, held[short], part) if short in held else part
    return held


def _without_home(name: str) -> str:
    """Return a name without its home; what belongs to one execution keeps its whole name."""
    parts = _HOME.fullmatch(name)
    return parts[1] if parts else name


def _joined(name: str, known: Any, part: Any) -> Any:
    if name == keys.TALLY:
        return {field: int(known.get(field, 0)) + int(part.get(field, 0)) for field in {**known, **part}}
    if isinstance(known, dict):
        return known | part
    if isinstance(known, list):
        return sorted(known + part)
    return known  # a copy that every partition has


def _pairs(flat: list[bytes]) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def dump() -> Plan[Dump]:
    """Read everything and put it into the form that is equal on every store."""
    held = yield from everything()
    runs = {id_: arrived(id_, held[keys.execution(id_)])[1] for id_ in _ids(held)}
    feed = {entry.position: entry for entry in map(feed_entry, held.get(keys.FEED, []))}
    records = _records(held, runs)
    lines = {id_: _positions(held, id_) for id_ in runs}
    history = {id_: tuple(feed[position].event for position in positions) for id_, positions in lines.items()}
    told = {position for positions in lines.values() for position in positions}
    records["past"] = {(position,): entry for position, entry in feed.items() if position not in told}
    return Dump(
        records={kind: rows for kind, rows in records.items() if rows},
        indexes={id_: {"placement": place} for id_, place in _placements(held, runs).items()},
        history={id_: lines for id_, lines in history.items() if lines},
        frames=_frames(held),
        counts={of: n for of, n in keys.tallied(held.get(keys.TALLY, {}).items()).items() if n},
    )


def _positions(held: dict[str, Any], id_: str) -> list[int]:
    older, newer = newest(held[keys.execution(id_)])
    listed = [int(position) for position in held.get(keys.history(id_), [])]
    assert len(listed) == older, f"{id_}: {len(listed)} lines in the list, {older} by its record"
    return [*listed, *newer]


def _ids(held: dict[str, Any]) -> list[str]:
    return [entry[1][1].decode() for entry in held.get(keys.ARRIVALS, [])]


def _records(held: dict[str, Any], runs: dict[str, Execution]) -> dict[str, dict[Key, Any]]:
    records: dict[str, dict[Key, Any]] = defaultdict(dict)
    for id_, run in runs.items():
        records["execution"][id_,] = run
        parts = [held.get(key, b"") for key in keys.payload(id_)]
        records["payload"][id_,] = Payload(parts[0], parts[1])
    for kind, key in _PLAIN.items():
        for field, value in held.get(key, {}).items():
            records[kind][tuple(field.decode().split("\0"))] = decode(kind, value)
    for field, value in held.get(keys.KIND_NAMES, {}).items():
        records["kind_names"][field.decode().removesuffix("\0"),] = decode("kind_names", value)
    for kind, key in (("keyring", keys.KEYRING), ("kind_namespaces", keys.KIND_NAMESPACES)):
        if key in held:
            records[kind][()] = decode(kind, held[key])
    for name, value in held.items():
        if name.startswith(keys.MEMO):
            records["memo"][_memo_key(name.removeprefix(keys.MEMO))] = decode("memo", value)
        elif name.startswith(f"{keys.PREFIX}{{"):
            _owned(records, name, value)
    return records


def _memo_key(text: str) -> Key:
    """Take a key apart: its last part may hold anything, the number of parts follows from the first."""
    return tuple(text.split("\x1f", 3 if text.startswith("signal\x1f") else 2))


def _owned(records: dict[str, dict[Key, Any]], name: str, value: Any) -> None:
    """Read what belongs to one execution: `ff:{fp:N}:<uuid>:<kind>[:<part>]`."""
    start = name.index("}:") + 2 + _UUID
    id_, _, rest = name[len(keys.PREFIX) : start], name[start : start + 1], name[start + 1 :]
    kind, _, part = rest.partition(":")
    if kind == "suspension":
        records[kind][id_,] = decode(kind, value)
    elif kind == "result":
        records[kind][id_, int(part)] = decode(kind, value)
    elif kind == "signal":
        for field, packed in value.items():
            records[kind][id_, part, int(field)] = decode(kind, packed)
    elif isinstance(value, dict) and kind in {"attempt", "waitpoint", "stream", "summary", "step"}:
        for field, packed in value.items():
            records[kind][id_, *keys.tail(kind, field)] = decode(kind, packed)


def _frames(held: dict[str, Any]) -> dict[tuple[str, int], tuple[Any, ...]]:
    found: dict[tuple[str, int], tuple[Any, ...]] = {}
    for name, rows in held.items():
        head, part, attempt = name.rpartition(":frames:")
        if part and rows:
            id_ = head.removeprefix(keys.PREFIX)
            found[id_, int(attempt)] = tuple(decode("frame", row[1][1]) for row in rows)
    return found


def _placements(held: dict[str, Any], runs: dict[str, Execution]) -> dict[str, Placement]:
    """Rebuild the placement of each execution from the indexes alone; what is in two places shows as neither."""
    states: dict[str, list[tuple[str, str]]] = defaultdict(list)
    holders: dict[str, tuple[str, str]] = {}
    claimable: dict[str, tuple[str, int]] = {}
    for name, value in held.items():
        if name.startswith(keys.STATE):
            lane, _, state = name.removeprefix(keys.STATE).partition("\0")
            for member in value:
                states[member.decode()].append((lane, state))
        elif name.startswith(keys.LEASES):
            for member, claim_id in value.items():
                holders[member.decode()] = (name.removeprefix(keys.LEASES), claim_id.decode())
        elif name.startswith(keys.CLAIM):
            for member, score in value.items():
                claimable[member.decode()] = (name, int(float(score)))
    due = {member.decode(): int(float(score)) for member, score in held.get(keys.DUE, {}).items()}
    found: dict[str, Placement] = {}
    for id_ in sorted({*states, *holders, *claimable, *due}):
        run = runs.get(id_)
        key, score = claimable.get(id_, ("", 0))
        if run is not None and not key:
            score = placement(run).score
        listed = states.get(id_, [])
        lane, state = listed[0] if len(listed) == 1 else ("", "")
        right = run is not None and key in {"", keys.route(queue_of(run))}
        holder, claim_id = holders.get(id_, ("", ""))
        public = Public(state) if state and right else state
        found[id_] = Placement(bool(key), score, lane, public, due.get(id_, 0), holder, claim_id)  # type: ignore[arg-type]
    return found
