"""Being woken over HTTP: one stream that says on which topics something may have changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
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
from flowfabric.storage.base import Subscription

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
    live.check_room()
    topics = tuple(dict.fromkeys(call.body.topics))
    for topic in topics:
        await _check(call, topic)
    return Answer(response=EventStream(live, _told(live, topics), call.request_id))


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


async def _told(live: Live, topics: tuple[str, ...]) -> AsyncGenerator[bytes, None]:
    woken: set[str] = set()
    something = asyncio.Event()
    async with _listening(live, topics, woken, something):
        yield message("listening", {"topics": len(topics)})
        while True:
            try:
                async with asyncio.timeout(live.heartbeat_seconds):
                    await something.wait()
            except TimeoutError:
                yield PING
                continue
            told = sorted(woken)
            woken.clear()
            something.clear()
            yield message("wake", {"topics": told})


@asynccontextmanager
async def _listening(
    live: Live, topics: tuple[str, ...], woken: set[str], something: asyncio.Event
) -> AsyncIterator[None]:
    """Listen to each topic by itself, so that the reader learns which one it was."""

    async def listen(topic: str, subscription: Subscription) -> None:
        while True:
            await subscription.wait()
            woken.add(topic)
            something.set()

    async with AsyncExitStack() as stack:
        subscriptions = [await stack.enter_async_context(live.store.subscribe([topic])) for topic in topics]
        tasks = [
            asyncio.create_task(listen(topic, subscription), name="flowfabric-wakeup")
            for topic, subscription in zip(topics, subscriptions, strict=True)
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
