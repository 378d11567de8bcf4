"""Long streams, read and sent in pieces: however long an answer is, little of it is in memory at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final

from msgspec.structs import replace

from flowfabric.model.ids import entry_id, parse_entry_id
from flowfabric.model.operations.stream import FrameView, ReadStream, StreamPage, TailStream
from flowfabric.server.http.call import Response, encode

FIRST: Final = 8
"""How many frames are read at first; frames may be large, and later pieces go by what the earlier ones weighed."""
MOST: Final = 128
GROWTH: Final = 4
KEPT_BYTES: Final = 262_144
"""How much of a piece is kept; the rest of it is read again when its turn comes."""

Question = ReadStream | TailStream
Read = Callable[[Any], Awaitable[StreamPage]]


def kept(frames: Sequence[FrameView], most: int = KEPT_BYTES) -> int:
    """Say how many of some frames are not too much to keep: one at least."""
    size = 0
    for number, view in enumerate(frames):
        size += len(view.frame.payload) + len(view.frame.metadata_json)
        if size > most:
            return max(1, number)
    return len(frames)


async def in_pieces(question: Question, first: Read, then: Read) -> AsyncGenerator[StreamPage, None]:
    """Read a page piece by piece. There is one piece at least; the last one says whether the stream has ended."""
    left, count, read = question.count, FIRST, first
    last = ""
    while True:
        asked = min(left, count)
        page = await read(replace(question, count=asked))
        page = page if page.last else replace(page, last=last)
        keep = kept(page.frames)
        left -= asked
        if keep < len(page.frames):
            left += len(page.frames) - keep
            page = replace(page, frames=page.frames[:keep], last=page.frames[keep - 1].entry_id)
            count = keep
        elif page.last == last or (len(page.frames) < asked and not question.exclude_best_effort):
            left = 0
        else:
            count = min(MOST, GROWTH * count)
        yield page
        if not left:
            return
        last, read = page.last, then
        question = _after(question, last)


def _after(question: Question, last: str) -> Question:
    if isinstance(question, TailStream):
        return replace(question, after=last)
    ms, seq = parse_entry_id("from", last)
    return replace(question, from_=entry_id(ms, seq + 1))


async def paged_answer(
    pages: AsyncGenerator[StreamPage, None],
    shape: Callable[[FrameView], Any],
    whole: Callable[[list[Any], int, StreamPage], Any],
    **answer: Any,
) -> Response:
    """Answer with pages put together: at once where they are short, else while they are being read.

    `shape` shows a frame; `whole` shows everything: a list of frames, how many there are, and the last page.
    """
    texts: list[bytes] = []
    size = 0
    async for page in pages:
        texts += [encode(shape(view)) for view in page.frames]
        size = sum(map(len, texts))
        if size > KEPT_BYTES:
            return Response(pieces=_sent(texts, pages, page, shape, whole), **answer)
    before, after = _around(whole([], len(texts), page))
    return Response(raw=before + b",".join(texts) + after, **answer)


async def _sent(
    texts: list[bytes],
    pages: AsyncGenerator[StreamPage, None],
    latest: StreamPage,
    shape: Callable[[FrameView], Any],
    whole: Callable[[list[Any], int, StreamPage], Any],
) -> AsyncGenerator[bytes, None]:
    count = len(texts)
    text = _around(whole([], 0, latest))[0] + b",".join(texts)
    texts.clear()
    yield text
    async with aclosing(pages):
        async for page in pages:
            count += len(page.frames)
            text = b"".join(b"," + encode(shape(view)) for view in page.frames)
            latest = replace(page, frames=())
            yield text
    yield _around(whole([], count, latest))[1]


def _around(value: Any) -> tuple[bytes, bytes]:
    """Take the JSON of an answer apart at its first list, which is empty."""
    before, _, after = encode(value).partition(b"[]")
    return before + b"[", b"]" + after
