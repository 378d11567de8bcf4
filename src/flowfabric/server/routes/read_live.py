"""Live streams: of one execution, of everything, and of topics that may have changed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack

from flowfabric.model import checks
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.ids import check_execution_id
from flowfabric.model.limits import MAX_INT
from flowfabric.model.operations.read import GetExecution
from flowfabric.model.operations.read_list import FeedEntry
from flowfabric.server.http.call import Response, ServerCall
from flowfabric.server.http.routing import serves
from flowfabric.server.live.feed import Live, feed_message, is_change
from flowfabric.server.live.sse import PING, TOO_SLOW, EventStream, message, overrun
from flowfabric.server.live.story import Story, parse_place
from flowfabric.wire.errors import HttpError, bad_request
from flowfabric.wire.read import EXECUTION_EVENTS, FEED, WAKEUPS, FeedQuery


def _last_id(call: ServerCall) -> str:
    headers = dict(call.scope["headers"])
    given: str = headers.get(b"last-event-id", b"").decode("latin-1") or call.query.last_event_id
    return given.strip()


@serves(EXECUTION_EVENTS)
async def execution_events(call: ServerCall) -> Response:
    """Follow one execution to its end."""
    live = call.server.live
    with live.seat(call.principal) as seat:
        place = parse_place(_last_id(call))
        execution_id = call.execution_id
        run = await call.read(GetExecution(execution_id=execution_id))
        if place.seq > run.event_count:
            raise bad_request("Last-Event-ID: this execution has not come that far", field="last_event_id")
        if place.told(run):  # a browser that reconnects after the end stops when it gets this
            return Response(raw=b"", status=204)
        story = Story(live, execution_id, place, call.principal)
        return Response(response=EventStream(seat, story.chunks(), call.request_id))


@serves(FEED)
async def feed(call: ServerCall) -> Response:
    """Follow the state changes of everything, from now on or from an id."""
    live = call.server.live
    with live.seat(call.principal) as seat:
        accepts = _filter(call.query, call.principal.namespace)
        chunks = _changes(live, _position(_last_id(call)), accepts)
        await anext(chunks)  # what happens once the answer has begun is told, whenever it is first read
        return Response(response=EventStream(seat, chunks, call.request_id))


def _position(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 16 or int(text) > MAX_INT:
        raise bad_request("Last-Event-ID: not an id of this feed", field="last_event_id")
    return int(text)


def _filter(query: FeedQuery, bound: str) -> Callable[[FeedEntry], bool]:
    """Say which changes a reader asked for and may see."""
    wanted = [
        (name, value)
        for name, value in (
            ("lane_id", query.lane),
            ("namespace", query.namespace),
            ("flow_id", query.flow),
            ("execution_kind", query.kind),
            ("namespace", bound),
        )
        if value
    ]
    return lambda entry: all(getattr(entry, name) == value for name, value in wanted)


async def _changes(
    live: Live, cursor: int | None, accepts: Callable[[FeedEntry], bool]
) -> AsyncGenerator[bytes, None]:
    """Tell the past from the store, then what the common reader hands out."""
    reader = live.feed
    async with reader.following():
        after = reader.position if cursor is None else cursor
        yield b""
        floor, last = await reader.bounds()
        if after < floor:
            yield overrun("what followed that id is no longer kept", oldest=floor + 1)
            return
        if after > last:  # the reader knows another store
            yield overrun("that id was never sent", oldest=floor + 1)
            return
        while after < (told := reader.position):
            entries, position = await reader.past(after)
            after = position if entries else told
            if text := b"".join(
                feed_message(entry) for entry in entries if is_change(entry) and accepts(entry)
            ):
                yield text
        with reader.listening(lambda entry: entry.position > after and accepts(entry)) as listener:
            while True:
                texts = await listener.take(live.heartbeat_seconds)
                yield b"".join(texts) or PING
                if listener.overrun:
                    yield overrun(TOO_SLOW)
                if listener.overrun or listener.ended:
                    return


@serves(WAKEUPS)
async def wakeups(call: ServerCall) -> Response:
    """Stream the topics on which something may have changed."""
    live = call.server.live
    topics = tuple(dict.fromkeys(call.body.topics))
    with live.seat(call.principal, len(topics)) as seat:
        for topic in topics:
            await _check(call, topic)
        return Response(
            response=EventStream(seat, _told(live, topics, call.principal.namespace), call.request_id)
        )


async def _check(call: ServerCall, topic: str) -> None:
    kind, _, name = topic.partition(":")
    try:
        if kind == "execution":
            check_execution_id(name, call.store.partitions)
            await call.visible(name)
        elif kind == "lane":
            checks.lane(name)
        elif kind == "worker":
            checks.worker("topics", name)
        elif topic != "feed":
            raise bad_request(
                "topics: there is lane:<lane>, execution:<id>, worker:<instance> and feed", field="topics"
            )
    except FlowFabricError as error:
        raise HttpError(
            400, f"topics: {error.text}", "invalid_input", kind="invalid_input", field="topics"
        ) from error


async def _told(live: Live, topics: tuple[str, ...], bound: str) -> AsyncGenerator[bytes, None]:
    """Listen once to all of them: what a stream costs does not depend on how many they are."""
    async with AsyncExitStack() as stack:
        async with live.opening:
            subscription = await stack.enter_async_context(live.store.subscribe(topics, bound))
        yield message("listening", {"topics": len(topics)})
        while True:
            if await subscription.wait(live.heartbeat_seconds):
                yield message("wake", {"topics": sorted(subscription.woken())})
            else:
                yield PING
