"""Frames of an attempt: appended, read, tailed, summed up."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any, Final

from flowfabric.engine import tail_when_ready
from flowfabric.model.errors import FlowFabricError, NotFound, refuse
from flowfabric.model.ids import parse_cursor
from flowfabric.model.operations.read import GetExecution
from flowfabric.model.operations.stream import (
    Appended,
    FrameView,
    ReadStream,
    ReadSummary,
    StreamPage,
    TailStream,
)
from flowfabric.model.records import Execution
from flowfabric.model.state import Ownership
from flowfabric.server.http.call import Response, ServerCall, ServerStopping
from flowfabric.server.http.pieces import in_pieces, paged_answer
from flowfabric.server.http.routing import apply, serves
from flowfabric.wire import payload
from flowfabric.wire.claim import NULL
from flowfabric.wire.errors import HttpError, bad_request, from_engine
from flowfabric.wire.stream import (
    APPEND,
    BLOCK_MAX_MS,
    READ,
    READ_SUMMARY,
    TAIL,
    AppendedView,
    FrameRow,
    FramesView,
    ReadQuery,
    SummaryDocument,
    TailQuery,
    frame_fields,
)

LIMIT_MAX = 1_000
LOOK_MS = 250
"""How often a tail looks whether its execution has come into being."""
NEVER_WRITTEN: Final = StreamPage(())
_U32_MAX = 2**32 - 1


@serves(APPEND)
async def append_frames(call: ServerCall) -> Response:
    """Append frames; a lease that is gone is refused as by every other operation of its holder."""
    try:
        appended = await apply(call, APPEND)
    except FlowFabricError as error:
        if error.code != "stale_owner_cannot_append":
            raise
        run = await call.read(GetExecution(execution_id=call.execution_id))
        refusal = from_engine(_lost_lease(run, call.now()), classic=False)
        refusal.extra["cause"] = error.code
        raise refusal from error
    return Response({"Appended": [_appended(each) for each in appended]})


def _appended(each: Appended) -> AppendedView:
    return AppendedView(
        entry_id=each.entry_id, frame_count=each.frame_count, summary_version=each.summary_version
    )


def _lost_lease(run: Execution, now: int) -> FlowFabricError:
    """Say in the words of every other operation of a holder why the lease does not count any more."""
    if run.ownership_state is Ownership.REVOKED:
        return refuse("lease_revoked")
    if run.ownership_state is Ownership.EXPIRED or 0 < run.lease_expires_at <= now:
        return refuse("lease_expired")
    return refuse("stale_lease")


@serves(READ)
async def read_stream(call: ServerCall) -> Response:
    """Read frames of an attempt."""
    asked: ReadQuery = call.query
    _check_limit(asked.limit, "from/to for larger spans")
    question = ReadStream(
        execution_id=call.execution_id,
        attempt_index=_index(call),
        count=asked.limit,
        from_=_cursor("from", asked.from_),
        to=_cursor("to", asked.to),
        exclude_best_effort=asked.visibility != "all",
    )
    _take_permit(call)
    return await _paged(call, in_pieces(question, partial(_read, call), partial(_read, call)))


@serves(TAIL)
async def tail_stream(call: ServerCall) -> Response:
    """Return the frames after one; when there is none, wait for one or for the end of the stream."""
    asked: TailQuery = call.query
    if _cursor("after", asked.after) in {"start", "end"}:
        raise bad_request(
            "after: XREAD cursor must be a concrete entry id; pass '0-0' to start from the beginning",
            field="after",
        )
    if asked.block_ms > BLOCK_MAX_MS:
        raise bad_request(f"block_ms exceeds {BLOCK_MAX_MS}ms ceiling", field="block_ms")
    _check_limit(asked.limit, "after")
    question = TailStream(
        execution_id=call.execution_id,
        attempt_index=_index(call),
        after=asked.after,
        count=asked.limit,
        exclude_best_effort=asked.visibility != "all",
    )
    _take_permit(call)
    return await _paged(call, in_pieces(question, partial(_tail, call, asked.block_ms), partial(_read, call)))


async def _tail(call: ServerCall, wait_ms: int, question: TailStream) -> StreamPage:
    """Tail a stream; that of an execution which is not there looks like one that was never written."""
    with contextlib.suppress(ServerStopping):  # a wait that ends early ends like any other
        end = time.monotonic() + wait_ms / 1000
        while (left_ms := int((end - time.monotonic()) * 1000)) > 0:
            try:
                return await call.while_connected(tail_when_ready(call.store, question, left_ms))
            except NotFound:
                await call.while_connected(asyncio.sleep(min(left_ms, LOOK_MS) / 1000))
    return await _read(call, question)


async def _read(call: ServerCall, question: ReadStream | TailStream) -> StreamPage:
    try:
        return await call.server.live.read_large(call.read(question))
    except NotFound:
        return NEVER_WRITTEN


def _take_permit(call: ServerCall) -> None:
    """Take a permit, which is given back when the answer has left."""
    if call.server.stopping.is_set():
        raise ServerStopping
    call.held.enter_context(call.server.stream_ops.hold())


@serves(READ_SUMMARY)
async def stream_summary(call: ServerCall) -> Response:
    """Return the summary document of an attempt."""
    question = ReadSummary(execution_id=call.execution_id, attempt_index=_index(call))
    call.held.enter_context(call.server.stream_ops.hold())
    found = await call.read(question)
    if found is None:
        raise HttpError(404, "this attempt has no summary yet", "not_found", kind="not_found")
    document = payload.embedded(found.document)
    return Response(SummaryDocument.of(found, document=NULL if document is None else document))


def _index(call: ServerCall) -> int:
    text = call.path["idx"]
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= _U32_MAX):
        raise bad_request("the attempt index must be a number from 0 to 4294967295", field="attempt_index")
    return int(text)


def _check_limit(limit: int, how: str) -> None:
    if limit < 1:
        raise bad_request("limit must be >= 1", field="limit")
    if limit > LIMIT_MAX:
        raise bad_request(f"limit exceeds REST ceiling {LIMIT_MAX}; paginate via {how}", field="limit")


def _cursor(field: str, text: str) -> str:
    try:
        parse_cursor(field, text)
    except FlowFabricError as error:
        raise bad_request(f"{field}: {error.text}", field=field) from error
    return text


async def _paged(call: ServerCall, pages: AsyncGenerator[StreamPage, None]) -> Response:
    call.held.push_async_callback(pages.aclose)
    return await paged_answer(pages, _frame, _page)


def _frame(view: FrameView) -> FrameRow:
    return FrameRow(id=view.entry_id, fields=frame_fields(view))


def _page(frames: list[Any], count: int, page: StreamPage) -> FramesView:
    return FramesView.of(page, frames=tuple(frames), count=count)
