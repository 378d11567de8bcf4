"""All steps of an execution, page after page."""

from __future__ import annotations

from collections.abc import AsyncIterator

from msgspec.structs import replace

from flowfabric.model.operations.step import ListedStep, ListSteps
from flowfabric.storage.base import Commands


async def every_step(store: Commands, execution_id: str, max_bytes: int = 0) -> AsyncIterator[ListedStep]:
    """Read all steps in the order of their calls; the first results come along, so many bytes in all."""
    question = ListSteps(execution_id=execution_id, max_bytes=max_bytes)
    while True:
        page = await store.read(question)
        for step in page.steps:
            yield step
        if page.next is None:
            return
        read = sum(len(step.result) for step in page.steps if step.result is not None)
        whole = all(step.result is not None for step in page.steps)
        question = replace(question, after=page.next, max_bytes=question.max_bytes - read if whole else 0)
