"""Being woken over HTTP: one stream that says on which topics something may have changed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Annotated

from msgspec import Meta, Struct

from flowfabric.model import checks
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.ids import check_execution_id
from flowfabric.server.call import Answer, Call
from flowfabric.server.errors import HttpError, bad_request
from flowfabric.server.live import Live
from flowfabric.server.roles import Need
from flowfabric.server.routing import endpoint
from flowfabric.server.sse import PING, EventStream, message

MAX_TOPICS = 500


class Topics(Struct, frozen=True):
    """What to listen to: `lane:<lane>`, `execution:<id>`, `worker:<instance>` or `feed`."""

    topics: Annotated[tuple[str, ...], Meta(min_length=1, max_length=MAX_TOPICS)]


@endpoint(
    "POST", "/v1/wakeups", Need.READ, body=Topics, bound=True,
    answers=((200, "Messages until the reader leaves."), (429, "Too many streams are open.")),
)  # fmt: skip
async def wakeups(call: Call) -> Answer:
    """Be told on which topics something may have changed; `listening` comes first, then `wake` with its topics."""
    live = call.server.live
    topics = tuple(dict.fromkeys(call.body.topics))
    with live.seat(call.principal, len(topics)) as seat:
        for topic in topics:
            await _check(call, topic)
        return Answer(
            response=EventStream(seat, _told(live, topics, call.principal.namespace), call.request_id)
        )


async def _check(call: Call, topic: str) -> None:
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
