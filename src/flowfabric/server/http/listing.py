"""Lists whose rows may be large: read a few rows at a time, and ended early rather than held in memory whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from flowfabric.model.operations.lane import ListLanes
from flowfabric.model.operations.read import ReadHistory
from flowfabric.model.operations.read_list import ListExecutions, ListQueue, ReadFeed
from flowfabric.model.operations.signal import ReadInbox
from flowfabric.model.operations.suspend_waitpoint import ListWaitpoints
from flowfabric.model.operations.worker import ListWorkers
from flowfabric.model.records import Worker
from flowfabric.server.http.call import encode

if TYPE_CHECKING:
    from flowfabric.server.http.call import ServerCall

FIRST: Final = 16
"""How many rows are read at first; how many follow is decided by what these weighed."""
MOST: Final = 64
PAGE_BYTES: Final = 1024 * 1024
"""A page ends with the row that exceeds this; a thousand ordinary rows have about half of it."""
LOOKS: Final = 10
"""For each row that is asked for, a store looks at up to so many."""


Listing = ListExecutions | ListQueue | ListWaitpoints | ReadInbox | ReadHistory | ReadFeed
"""Questions whose answer is a page: rows, and where to go on."""
Names = ListWorkers | ListLanes
"""Questions whose answer is rows; to go on, name the last one."""
_ROWS: Final[dict[type[Any], str]] = {
    ListExecutions: "runs",
    ListQueue: "runs",
    ListWaitpoints: "waitpoints",
    ReadInbox: "waitpoints",
    ReadHistory: "events",
    ReadFeed: "entries",
}


async def read_list(call: ServerCall, question: Listing) -> Any:
    """Read a page. It may be short while there is a next one, where rows are large."""
    return await call.server.live.read_large(read_page(call, question))


async def read_page(call: ServerCall, question: Listing) -> Any:
    """Read a page as `read_list` does, where the caller sees to it that few do so at once."""
    field = _ROWS[type(question)]
    wanted, looked, size = question.limit, 0, 0
    rows: list[Any] = []
    while True:
        asked = min(wanted - len(rows), _worth_reading(len(rows), size))
        page: Any = await call.read(replace(question, limit=asked))
        found = getattr(page, field)
        rows += found
        size += sum(len(encode(row)) for row in found)
        looked += LOOKS * asked if len(found) < asked else asked
        ended = not page.next or (isinstance(question, ReadFeed) and len(found) < asked)
        if ended or len(rows) >= wanted or size >= PAGE_BYTES or looked >= LOOKS * wanted:
            return replace(page, **{field: tuple(rows)})
        question = replace(question, after=page.next)


async def read_names(call: ServerCall, question: Names) -> tuple[tuple[Any, ...], bool]:
    """Read rows by name, and say whether there may be more. They may be fewer than asked, where they are large."""
    return await call.server.live.read_large(_names(call, question))


async def _names(call: ServerCall, question: Names) -> tuple[tuple[Any, ...], bool]:
    wanted, size = question.limit, 0
    rows: list[Any] = []
    while True:
        asked = min(wanted - len(rows), _worth_reading(len(rows), size))
        found: tuple[Any, ...] = await call.read(replace(question, limit=asked))
        rows += found
        size += sum(len(encode(row)) for row in found)
        if len(found) < asked:
            return tuple(rows), False
        if len(rows) >= wanted or size >= PAGE_BYTES:
            return tuple(rows), True
        question = replace(question, after=_place(found[-1]))


def _place(row: Any) -> Any:
    return (row.namespace, row.worker_instance_id) if isinstance(row, Worker) else row.lane_id


def _worth_reading(count: int, size: int) -> int:
    """Say how many rows fit into what is left of a page, going by those that were read."""
    if not count:
        return FIRST
    return max(1, min(MOST, (PAGE_BYTES - size) * count // max(1, size)))
