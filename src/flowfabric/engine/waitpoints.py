"""All open waitpoints of one execution, a page at a time: where they are large, pages of a server are short."""

from __future__ import annotations

from flowfabric.model.command import PAGE_MAX
from flowfabric.model.operations.suspend_waitpoint import ListWaitpoints, WaitpointView
from flowfabric.storage.base import Commands


async def every_waitpoint(store: Commands, execution_id: str) -> tuple[WaitpointView, ...]:
    """Return the open waitpoints of an execution, by id."""
    found: tuple[WaitpointView, ...] = ()
    question = ListWaitpoints(execution_id=execution_id, limit=PAGE_MAX)
    while True:
        page = await store.read(question)
        found += page.waitpoints
        if not page.next:
            return found
        question = ListWaitpoints(execution_id=execution_id, after=page.next, limit=PAGE_MAX)
