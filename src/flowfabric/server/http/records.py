"""Reads as records: the same routes, answered with the typed answer of the engine instead of the public shape.

Our own client asks `GET <route>?question={"ReadHistory":{"after":5}}` with this media type. Who may ask what is decided
by the route, as for everybody; what the path names is taken from the path; what a bound token may not see is left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec
from msgspec.structs import replace

from flowfabric.engine import tail_when_ready
from flowfabric.model.command import Question
from flowfabric.model.errors import NotFound
from flowfabric.model.operations.kind import FindKinds, GetKind, ListKinds
from flowfabric.model.operations.lane import ListLanes
from flowfabric.model.operations.lease import CountLeases, ListLeases
from flowfabric.model.operations.read import GetExecution, ListAttempts
from flowfabric.model.operations.read_list import (
    CountExecutions,
    FeedPage,
    FindExecutions,
    ListExecutions,
    ListPartition,
    ListQueue,
    QueuePage,
    ReadFeed,
)
from flowfabric.model.operations.signal import ObserveSignals, ReadInbox
from flowfabric.model.operations.stream import ReadStream, StreamPage, TailStream
from flowfabric.model.operations.suspend_waitpoint import ReadToken
from flowfabric.model.operations.worker import ListWorkers
from flowfabric.server.access.fences import seen_by
from flowfabric.server.http.call import NO_STORE, Response, ServerCall
from flowfabric.server.http.cursors import queue_name, read_place, write_place
from flowfabric.server.http.listing import Listing, Names, read_list, read_names
from flowfabric.server.http.pieces import in_pieces, paged_answer
from flowfabric.wire.errors import HttpError, bad_request
from flowfabric.wire.route import RECORD, Route
from flowfabric.wire.stream import BLOCK_MAX_MS

FRAMES_MAX: Final = 1_000

_OF_NAMESPACE: Final = (
    ListExecutions,
    ListPartition,
    FindExecutions,
    ListLanes,
    ListKinds,
    GetKind,
    ListWorkers,
    CountLeases,
    CountExecutions,
    ReadInbox,
)
"""Questions that name a namespace: a bound token's is put in."""


def wanted(headers: dict[bytes, bytes]) -> bool:
    """Whether the caller asks for records."""
    return headers.get(b"accept", b"") == RECORD.encode()


async def answer(call: ServerCall, route: Route) -> Response:
    """Answer a question that a route knows."""
    try:
        query = parse_qs(
            call.scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=16
        )
    except ValueError as error:
        raise bad_request("invalid query: too many parameters") from error
    question = _question(call, route, query.get("question", ["{}"])[-1])
    wait_ms = query.get("block_ms", ["0"])[-1]
    if not (wait_ms.isascii() and wait_ms.isdigit() and len(wait_ms) < 6 and int(wait_ms) <= BLOCK_MAX_MS):
        raise bad_request(f"block_ms: must be an integer from 0 to {BLOCK_MAX_MS}", field="block_ms")
    if isinstance(question, ReadStream | TailStream):
        return await _stream(call, question, int(wait_ms))
    found = seen_by(call.principal, await _asked(call, route, question))
    return _record(found, headers=NO_STORE if isinstance(question, ReadToken) else ())


def _record(value: Any, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    return Response(value, content_type=RECORD, headers=headers)


def _question(call: ServerCall, route: Route, text: str) -> Question[Any]:
    known = {kind.__name__: kind for kind in route.questions}
    if not known:
        raise HttpError(
            406, "this route has no records; accept application/json", "not_acceptable", kind="not_acceptable"
        )
    execution_id = {"execution_id": call.execution_id} if route.names_execution else {}
    try:
        ((name, fields),) = msgspec.json.decode(text, type=dict[str, dict[str, Any]]).items()
        kind = known[name]
        in_path = {route.field_in_path(parameter, kind): part for parameter, part in call.path.items()}
        question: Question[Any] = msgspec.convert(fields | in_path | execution_id, kind, strict=False)
    except KeyError as error:
        raise bad_request(f"question: ask one of {', '.join(known)} here", field="question") from error
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise bad_request(f"question: {error}", field="question") from error
    question.check()
    return question


async def _asked(call: ServerCall, route: Route, question: Question[Any]) -> Any:
    bound = call.principal.namespace
    if not bound or route.names_execution:  # the gate has looked whose execution it is
        return await _read(call, question)
    if isinstance(question, ListQueue):
        return await _queue(call, question, bound)
    if isinstance(question, _OF_NAMESPACE):
        return await _read(call, replace(question, namespace=bound))
    if isinstance(question, FindKinds):
        return await _read(
            call, replace(question, wanted=tuple((bound, kind) for _, kind in question.wanted))
        )
    return await _TRIM[type(question)](call, await _read(call, question), bound)


async def _read(call: ServerCall, question: Question[Any]) -> Any:
    if isinstance(question, Listing):
        return await read_list(call, question)
    if isinstance(question, Names):
        return (await read_names(call, question))[0]
    if isinstance(question, ListAttempts | ObserveSignals):
        return await call.server.live.read_large(call.read(question))
    return await call.read(question)


async def _stream(call: ServerCall, question: ReadStream | TailStream, wait_ms: int) -> Response:
    if question.count > FRAMES_MAX:
        raise bad_request(f"count: at most {FRAMES_MAX} frames in one answer", field="count")
    call.held.enter_context(call.server.stream_ops.hold())

    async def read(part: ReadStream | TailStream) -> StreamPage:
        return await call.server.live.read_large(call.read(part))

    async def wait(part: TailStream) -> StreamPage:
        return await call.while_connected(tail_when_ready(call.store, part, wait_ms))

    pages = in_pieces(question, wait if isinstance(question, TailStream) and wait_ms else read, read)
    call.held.push_async_callback(pages.aclose)
    return await paged_answer(
        pages, lambda view: view, lambda _, __, page: replace(page, frames=()), content_type=RECORD
    )


# What a token that is bound to one namespace gets of a list over all of them.


async def _feed(_: ServerCall, page: FeedPage, bound: str) -> FeedPage:
    return replace(page, entries=tuple(entry for entry in page.entries if entry.namespace == bound))


async def _queue(call: ServerCall, question: ListQueue, bound: str) -> QueuePage:
    """Read a queue; places in it, which may be those of others, are sealed."""
    about = queue_name(question.lane_id, bound)
    if question.after[1]:
        question = replace(question, after=await read_place(call.store, about, question.after[1]))
    page: QueuePage = await read_list(call, replace(question, namespace=bound))
    if page.next is None:
        return page
    return replace(page, next=(0, await write_place(call.store, about, page.next)))


async def _leases(call: ServerCall, held: tuple[str, ...], bound: str) -> tuple[str, ...]:
    return tuple([each for each in held if await inside(call, each, bound)])


async def inside(call: ServerCall, execution_id: str, bound: str) -> bool:
    """Whether an execution exists and belongs to a namespace."""
    with contextlib.suppress(NotFound):
        return (await call.read(GetExecution(execution_id=execution_id))).namespace == bound
    return False


_TRIM: Final[dict[type[Question[Any]], Callable[[ServerCall, Any, str], Awaitable[Any]]]] = {
    ReadFeed: _feed,
    ListLeases: _leases,
}
