"""Reads that take several calls: long streams, and all steps of an execution."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec.structs import replace

from flowfabric.client.answers import StepList, decoded
from flowfabric.client.operations import fill
from flowfabric.client.questions import PATHS
from flowfabric.client.transport import Request, Transport
from flowfabric.model.contracts.lease import StepView
from flowfabric.model.contracts.reads import GetStep, ListSteps, ReadStream, StreamPage, TailStream
from flowfabric.model.ids import entry_id, parse_entry_id

FRAMES_AT_ONCE: Final = 1_000
Ask = Callable[[Any], Awaitable[Any]]


async def read_frames(question: ReadStream | TailStream, ask: Ask) -> StreamPage:
    """Read frames, a page at a time."""
    wanted = question.count
    page: StreamPage = await ask(replace(question, count=min(wanted, FRAMES_AT_ONCE)))
    frames = list(page.frames)
    while len(frames) < wanted and page.last and (len(page.frames) == FRAMES_AT_ONCE or _filtered(question)):
        rest = replace(_after(question, page.last), count=min(wanted - len(frames), FRAMES_AT_ONCE))
        page, before = await ask(rest), page
        if not page.last:
            page = replace(page, last=before.last)
            break
        frames.extend(page.frames)
    return replace(page, frames=tuple(frames))


def _filtered(question: ReadStream | TailStream) -> bool:
    return question.exclude_best_effort and question.count > FRAMES_AT_ONCE


def _after(question: ReadStream | TailStream, last: str) -> ReadStream | TailStream:
    if isinstance(question, TailStream):
        return replace(question, after=last)
    ms, seq = parse_entry_id("from", last)
    return replace(question, from_=entry_id(ms, seq + 1))


async def list_steps(transport: Transport, question: ListSteps, read: Ask) -> tuple[StepView, ...]:
    """Read all steps; large results, which lists leave out, are fetched one by one."""
    steps: list[StepView] = []
    cursor: str | None = ""
    while cursor is not None:
        query = {"cursor": cursor} if cursor else {}
        path = fill(PATHS[ListSteps], question)
        page = decoded(
            await transport.send(Request(method="GET", path=path, query=query, safe=True)), StepList
        )
        for shape in page.steps:
            if shape.whole:
                steps.append(shape.view(shape.name))
                continue
            found = await read(GetStep(execution_id=question.execution_id, step_name=shape.name))
            if found is not None:
                steps.append(found)
        cursor = page.next_cursor
    return tuple(steps)
