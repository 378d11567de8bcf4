"""Lists of steps: pages of their order, without their results."""

from __future__ import annotations

from typing import Final

import msgspec

from flowfabric.model.views import StepHead, head_of
from flowfabric.storage.kinds import unpack
from flowfabric.storage.valkey import keys
from flowfabric.storage.valkey.codec import decode
from flowfabric.storage.valkey.keys import Layout
from flowfabric.storage.valkey.lists import Numbered, scored
from flowfabric.storage.valkey.requests import Plan

_HEAD: Final = msgspec.msgpack.Decoder(tuple[int, str | int, int])


def page(
    layout: Layout, execution_id: str, call_index: int, name: str, limit: int
) -> Plan[tuple[StepHead, ...]]:
    """Read the heads of steps after a call and a name."""
    rows = yield from _rows(execution_id, (call_index, name), limit)
    if not rows:
        return ()
    (values,) = yield [("HMGET", keys.heads(execution_id), *(each for _, each in rows))]
    found = []
    for (index, each), value in zip(rows, values, strict=True):
        at, encoding, size = unpack("step", _HEAD, value) if value is not None else (0, 0, 0)
        if isinstance(encoding, str):
            found.append(StepHead(each, index, at, encoding, size))
            continue
        # How long the document of a wait is shows when it is written. These are read one after the other, so that no
        # more than one of them is held; a step that is gone since has no head.
        (step,) = yield [("HGET", *layout.place("step", (execution_id, each)))]
        if step is not None:
            found.append(head_of(decode("step", step)))
    return tuple(found)


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
