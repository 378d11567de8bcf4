"""Live feeds: of one execution, and of everything."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from msgspec import Struct

from flowfabric.model.limits import MAX_INT
from flowfabric.model.operations.read import GetExecution
from flowfabric.model.operations.read_list import FeedEntry
from flowfabric.server.call import Answer, Call
from flowfabric.server.errors import bad_request
from flowfabric.server.live import Live, feed_message, is_change
from flowfabric.server.roles import Need
from flowfabric.server.routing import endpoint
from flowfabric.server.sse import PING, TOO_SLOW, EventStream, overrun
from flowfabric.server.story import Story, parse_place

STREAM = ((200, "Messages until the reader leaves."), (429, "Too many streams are open."))

ALL_TOLD = (204, "It has ended, and its end was told before.")


class EventsQuery(Struct, frozen=True):
    """Where to go on."""

    last_event_id: str = ""
    """The id of the last message that was seen; the header `Last-Event-ID` counts more."""


class FeedQuery(Struct, frozen=True):
    """Which changes to show; what is not given is not filtered."""

    lane: str = ""
    namespace: str = ""
    flow: str = ""
    kind: str = ""
    last_event_id: str = ""
    """The id of the last message that was seen; none: what happens from now on."""


def _last_id(call: Call) -> str:
    headers = dict(call.scope["headers"])
    given: str = headers.get(b"last-event-id", b"").decode("latin-1") or call.query.last_event_id
    return given.strip()


@endpoint("GET", "/v1/executions/{id}/events", Need.READ, query=EventsQuery, answers=(*STREAM, ALL_TOLD))
async def execution_events(call: Call) -> Answer:
    """Follow one execution: states, attempts, frames and progress, from its beginning or from an id, to its end.

    A `superseded` event says which of the frames before it count no more, because the handler runs again: those of
    `attempt_index` from `from` to `to`, except those whose `step` is one of `kept_steps`.
    """
    live = call.server.live
    with live.seat(call.principal) as seat:
        place = parse_place(_last_id(call))
        execution_id = call.execution_id
        run = await call.read(GetExecution(execution_id=execution_id))
        if place.seq > run.event_count:
            raise bad_request("Last-Event-ID: this execution has not come that far", field="last_event_id")
        if place.told(run):  # a browser that reconnects after the end stops when it gets this
            return Answer(raw=b"", status=204)
        story = Story(live, execution_id, place, call.principal)
        return Answer(response=EventStream(seat, story.chunks(), call.request_id))


@endpoint("GET", "/v1/feed", Need.READ, query=FeedQuery, bound=True, answers=STREAM)
async def feed(call: Call) -> Answer:
    """Follow the state changes of everything, from now on or from an id."""
    live = call.server.live
    with live.seat(call.principal) as seat:
        accepts = _filter(call.query, call.principal.namespace)
        chunks = _changes(live, _position(_last_id(call)), accepts)
        await anext(chunks)  # what happens once the answer has begun is told, whenever it is first read
        return Answer(response=EventStream(seat, chunks, call.request_id))


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
            ("lane_id", query.lane), ("namespace", query.namespace), ("flow_id", query.flow),
            ("execution_kind", query.kind), ("namespace", bound),
        )
        if value
    ]  # fmt: skip
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
