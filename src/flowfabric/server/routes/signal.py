"""Signals of operators, and who waits for a signal."""

from __future__ import annotations

import asyncio

from flowfabric.model.errors import FlowFabricError, NotFound
from flowfabric.model.operations.read import GetExecution
from flowfabric.model.operations.signal import ObserveSignals, ReadInbox
from flowfabric.model.operations.suspend_waitpoint import WaitpointView
from flowfabric.model.wait_result import wait_signal
from flowfabric.server.http.call import Response, ServerCall
from flowfabric.server.http.cursors import read_cursor, write_cursor
from flowfabric.server.http.listing import FIRST, read_page
from flowfabric.server.http.routing import apply, serves
from flowfabric.wire.errors import HttpError
from flowfabric.wire.signal import APPROVE, INBOX, LIST_SIGNALS, InboxRow, InboxView, SignalList

_INBOX = "inbox"


@serves(APPROVE)
async def approve(call: ServerCall) -> Response:
    """Deliver a signal as an operator."""
    try:
        return Response(APPROVE.answer.write(await apply(call, APPROVE)))
    except FlowFabricError as error:
        answer_missing_waitpoint(error)
        raise


def answer_missing_waitpoint(error: FlowFabricError) -> None:
    """Answer 404 where nobody knows the waitpoint that the path names."""
    if error.code == "waitpoint_not_found":
        raise HttpError(404, error.text, error.code, kind=error.code, field="waitpoint_id") from error


@serves(LIST_SIGNALS)
async def signals(call: ServerCall) -> Response:
    """List the signals that ended the last suspension of the current attempt."""
    found = await call.server.live.read_large(call.read(ObserveSignals(execution_id=call.execution_id)))
    return Response(SignalList(signals=tuple(map(wait_signal, found))))


@serves(INBOX)
async def inbox(call: ServerCall) -> Response:
    """List every open waitpoint, the oldest first."""
    question = ReadInbox(
        namespace=call.principal.namespace,
        after=read_cursor(_INBOX, call.query.cursor),
        limit=call.query.limit,
    )
    return Response(await call.server.live.read_large(_page(call, question)))


async def _page(call: ServerCall, question: ReadInbox) -> InboxView:
    page = await read_page(call, question)
    now = call.now()
    rows: list[InboxRow | None] = []
    for at in range(0, len(page.waitpoints), FIRST):  # their executions may be large, too
        few = page.waitpoints[at : at + FIRST]
        rows += await asyncio.gather(*(_row(call, view, now) for view in few))
    found = tuple(row for row in rows if row is not None)
    return InboxView(waitpoints=found, next_cursor=write_cursor(_INBOX, page.next))


async def _row(call: ServerCall, view: WaitpointView, now: int) -> InboxRow | None:
    try:
        run = await call.read(GetExecution(execution_id=view.execution_id))
    except NotFound:  # purged since
        return None
    row: InboxRow = InboxRow.of(
        view,
        namespace=run.namespace,
        lane_id=run.lane_id,
        execution_kind=run.execution_kind,
        public_state=run.public_state,
        reason=view.reason_code or None,
        age_ms=max(now - view.created_at, 0),
    )
    return row
