"""Reads that take several calls: long streams."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec.structs import replace

from flowfabric.model.ids import entry_id, parse_entry_id
from flowfabric.model.operations.stream import ReadStream, StreamPage, TailStream

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
