"""`GET /v1/events`: the changes of all executions, as they happen."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest

from flowfabric.model.limits import FEED_AFTER_PURGE_MS, MAX_INT
from flowfabric.model.operations.timer import Purge
from flowfabric.storage import open_store
from support.events import brief, driver, path, told
from support.frames import append
from support.server import Api
from support.serving import Backend
from support.sse import Message, listen
from support.until import next_millisecond


async def test_the_feed_tells_changes_from_now_on(api: Api) -> None:
    ff = driver(api)
    await ff.create()
    async with listen(api, "/v1/feed") as feed:
        task = await ff.running(lane_id="a", namespace="n", execution_kind="k")
        await append(ff, task, b"not a change")
        await ff.complete(task)
        told = await feed.take(3)
    assert [message.data["to"] for message in told] == ["waiting", "active", "completed"]
    assert {message.event for message in told} == {"state"}
    assert {
        (m.data["lane_id"], m.data["namespace"], m.data["execution_kind"], m.data["execution_id"])
        for m in told
    } == {("a", "n", "k", task.execution_id)}


@pytest.mark.parametrize(
    ("name", "field"), [("lane", "lane_id"), ("namespace", "namespace"), ("kind", "execution_kind")]
)
async def test_filters_of_the_feed(api: Api, name: str, field: str) -> None:
    ff = driver(api)
    wanted: dict[str, Any] = {field: "other"}
    made = [await ff.create(), await ff.create(**wanted)]
    async with listen(api, "/v1/feed", "0", **{name: "other"}) as feed:
        (past,) = await feed.take(1)
        made += [await ff.create(), await ff.create(**wanted)]
        (live,) = await feed.take(1)
    assert [past.data["execution_id"], live.data["execution_id"]] == made[1::2]


async def test_every_position_goes_on_without_gap_or_repeat(api: Api) -> None:
    ff = driver(api)
    for _ in range(5):
        await ff.complete(await ff.running())
    async with listen(api, "/v1/feed", "0") as feed:
        everything = await feed.take(15)
        for place in (0, 6, 13):
            async with listen(api, "/v1/feed", everything[place].id) as later:
                assert await later.take(14 - place) == everything[place + 1 :]
        await ff.create()
        (live,) = await feed.take(1)
        assert int(live.id) > int(everything[-1].id)


async def test_readers_of_the_feed_that_come_back_while_it_grows_miss_nothing(api: Api) -> None:
    ff = driver(api)
    async with listen(api, "/v1/feed", "0") as steady:
        collecting = asyncio.create_task(steady.take(600, 30))

        async def write() -> None:
            for _ in range(200):
                await ff.complete(await ff.running())

        async def read() -> list[Message]:
            seen: list[Message] = []
            while len(seen) < 600:
                async with listen(api, "/v1/feed", seen[-1].id if seen else "0") as feed:
                    seen += await feed.take(min(11, 600 - len(seen)), 30)
            return seen

        mine, _ = await asyncio.gather(read(), write())
        assert mine == await collecting
    assert len({(m.data["execution_id"], m.data["seq"]) for m in mine}) == 600


async def test_a_cursor_that_is_too_old_is_told_so(api: Api, backend: Backend) -> None:
    ff = driver(api)
    task = await ff.running(policy={"stream_policy": {"retention_ttl_ms": 1}})
    await ff.complete(task)
    first = (await told(api, 1))[0]
    for _ in range(100):
        if (await api.get(f"/v1/executions/{quote(task.execution_id)}/events")).status == 404:
            break
        await ff.store.apply(Purge(execution_id=task.execution_id))
        await next_millisecond(ff.store)
    await ff.create()
    async with listen(api, "/v1/feed", first) as feed:  # it is gone, and the feed still tells of it
        assert brief(await feed.take(2)) == [("state", "active"), ("state", "completed")]
    tomorrow = api.store.now() + 2 * FEED_AFTER_PURGE_MS
    later = await open_store(backend.url(), clock=lambda: tomorrow)
    await later.collect()
    await later.close()
    async with listen(api, "/v1/feed", first) as feed:
        (message,) = await feed.rest()
    assert (message.event, message.id) == ("overrun", "")
    async with listen(api, "/v1/feed", str(message.data["oldest"] - 1)) as feed:
        assert brief(await feed.take(1)) == [("state", "waiting")]


async def test_a_cursor_from_another_store_is_told_so(api: Api) -> None:
    await driver(api).create()
    async with listen(api, "/v1/feed", str(MAX_INT)) as feed:
        (message,) = await feed.rest()
    assert (message.event, message.data["oldest"]) == ("overrun", 1)


@pytest.mark.parametrize("bad", ["x", "-1", "1.5", str(2**60), "٣"])
async def test_a_cursor_of_something_else_is_refused(api: Api, bad: str) -> None:
    reply = await api.get("/v1/feed", last_event_id=bad)
    assert (reply.status, reply.json["field"]) == (400, "last_event_id")


async def test_a_bound_token_follows_its_namespace_only(serve: Callable[..., Awaitable[Api]]) -> None:
    api = await serve(token="root", api_token="root")
    ff = driver(api)
    form = {"name": "mine", "role": "reader", "namespace": "mine"}
    token = (await api.post("/v1/admin/tokens", form)).json["token"]
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:
        bound = Api(api.server, api.store, api.base, session)
        async with listen(bound, "/v1/feed") as feed, listen(bound, "/v1/feed", namespace="other"):
            other = await ff.create(namespace="other")
            mine = await ff.create(namespace="mine")
            (message,) = await feed.take(1)
            assert message.data["execution_id"] == mine
        assert (await bound.get(path(other))).status == 404
        async with listen(bound, path(mine)) as feed:
            await feed.take(1)
