"""Lists of steps: pages of their order, without their results."""

from __future__ import annotations

from typing import Final

import msgspec

from flowfabric.model.views import StepHead
from flowfabric.storage.kinds import unpack
from flowfabric.storage.valkey import keys
from flowfabric.storage.valkey.lists import Numbered, scored
from flowfabric.storage.valkey.requests import Plan

_HEAD: Final = msgspec.msgpack.Decoder(tuple[int, str, int])


def page(execution_id: str, call_index: int, name: str, limit: int) -> Plan[tuple[StepHead, ...]]:
    """Read the heads of steps after a call and a name."""
    rows = yield from _rows(execution_id, (call_index, name), limit)
    return (yield from _heads_of(execution_id, rows))


def _heads_of(execution_id: str, rows: list[Numbered]) -> Plan[tuple[StepHead, ...]]:
    """Read the heads of some steps; one that is gone since has none."""
    if not rows:
        return ()
    (values,) = yield [("HMGET", keys.heads(execution_id), *(each for _, each in rows))]
    return tuple(
        StepHead(name, index, *unpack("step", _HEAD, value))
        for (index, name), value in zip(rows, values, strict=True)
        if value is not None
    )


def heads(execution_id: str) -> Plan[tuple[StepHead, ...]]:
    """Read the heads of all steps; their number is limited."""
    (flat,) = yield [("ZRANGE", keys.steps(execution_id), 0, -1, "WITHSCORES")]
    return (yield from _heads_of(execution_id, scored(flat)))


def _rows(execution_id: str, after: Numbered, limit: int) -> Plan[list[Numbered]]:
    """Read names in the order of their calls; those of one call are in the order of their text."""
    size = limit + 1
    while True:
        (flat,) = yield [
            ("ZRANGE", keys.steps(execution_id), after[0], "+inf", "BYSCORE", "LIMIT", 0, size, "WITHSCORES")
        ]
        rows = scored(flat)
        found = [row for row in rows if row > after]
        if len(found) >= limit or len(rows) < size:
            return found[:limit]
        size *= 2  # of the first call more than a page was seen before
