"""Lists whose rows may be large: read a few rows at a time, and ended early rather than held in memory whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from flowfabric.model.contracts.reads import ListExecutions, ListQueue
from flowfabric.server.call import encode

if TYPE_CHECKING:
    from flowfabric.server.call import Call

FIRST: Final = 16
"""How many rows are read at first; how many follow is decided by what these weighed."""
MOST: Final = 64
PAGE_BYTES: Final = 1024 * 1024
"""A page ends with the row that exceeds this; a thousand ordinary rows have about half of it."""
LOOKS: Final = 10
"""For each row that is asked for, a store looks at up to so many."""


async def read_list(call: Call, question: ListExecutions | ListQueue) -> Any:
    """Read a page of executions. It may be short while there is a next one, where rows are large."""
    return await call.server.live.read_large(_page(call, question))


async def _page(call: Call, question: ListExecutions | ListQueue) -> Any:
    wanted, looked, size = question.limit, 0, 0
    runs: list[Any] = []
    while True:
        asked = min(wanted - len(runs), _worth_reading(len(runs), size))
        page: Any = await call.read(replace(question, limit=asked))
        runs += page.runs
        size += sum(len(encode(run)) for run in page.runs)
        looked += LOOKS * asked if len(page.runs) < asked else asked
        if not page.next or len(runs) >= wanted or size >= PAGE_BYTES or looked >= LOOKS * wanted:
            return replace(page, runs=tuple(runs))
        question = replace(question, after=page.next)


def _worth_reading(count: int, size: int) -> int:
    """Say how many rows fit into what is left of a page, going by those that were read."""
    if not count:
        return FIRST
    return max(1, min(MOST, (PAGE_BYTES - size) * count // max(1, size)))
