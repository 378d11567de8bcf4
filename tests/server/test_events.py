from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import time
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from flowfabric.model.command import Question
from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.lease import Release, UpdateProgress
from flowfabric.model.operations.operate import Replay
from support.counting import Asked, counting
from support.events import brief, driver, path, told
from support.frames import append
from support.server import Api
from support.serving import Backend, Serve
from support.sse import Feed, Message, listen
from support.until import next_millisecond, until


async def test_the_story_of_an_execution(api: Api) -> None:
    ff = driver(api)
    task = await ff.running(
        policy={"retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 0}}}
    )
    await append(ff, task, b"one", b"two")
    await ff.fail(task, "boom")
    again = await ff.claim_one()
    await append(ff, again, b"three", b"\xff\x00")
    await ff.complete(again, b"{}")
    async with listen(api, path(task.execution_id)) as feed:
        told = await feed.rest()
    assert brief(told) == [
        ("state", "waiting"),
        ("attempt", "initial"),
        ("state", "active"),
        ("frame", "one"),
        ("frame", "two"),
        ("state", "delayed"),
        ("state", "waiting"),
        ("superseded", []),
        ("attempt", "retry"),
        ("state", "active"),
        ("frame", "three"),
        ("frame", "/wA="),
        ("state", "completed"),
        ("end", "completed"),
    ]
    first, second = (message.data for message in told if message.event == "attempt")
    assert first["previous"] is None
    assert (second["attempt_index"], second["previous"]["ended"]) == (1, "ended_failure")
    assert second["previous"]["reason"] == "boom"
    frame = told[11].data
    assert frame["attempt_index"] == 1
    assert frame["encoding"] == "base64"
    assert frame["fields"]["payload"] == "/wA="
    assert len({message.id for message in told}) == len(told)
    assert told[3].id == f"2.0.{told[3].data['id']}"


async def test_every_id_goes_on_without_gap_or_repeat(api: Api) -> None:
    ff = driver(api)
    task = await ff.running()
    await append(ff, task, b"one", b"two")
    await ff.store.apply(Release(execution_id=task.execution_id, fence=task.fence))
    again = await ff.claim_one()
    await append(ff, again, b"three")
    await ff.complete(again)
    async with listen(api, path(task.execution_id)) as feed:
        everything = await feed.rest()
    assert brief(everything)[5:9] == [
        ("superseded", []),
        ("attempt", "reclaim"),
        ("frame", "three"),
        ("state", "completed"),
    ]
    for place, message in enumerate(everything[:-1]):
        async with listen(api, path(task.execution_id), message.id) as feed:
            assert await feed.rest() == everything[place + 1 :]
        async with listen(api, path(task.execution_id), last_event_id=message.id) as feed:
            assert await feed.rest() == everything[place + 1 :]
    seen = await api.call("GET", path(task.execution_id), headers={"Last-Event-ID": everything[-1].id})
    assert (seen.status, seen.raw) == (204, b"")
    await ff.store.apply(Replay(execution_id=task.execution_id))
    async with listen(api, path(task.execution_id), everything[-1].id) as feed:
        assert brief(await feed.take(1)) == [("state", "waiting")]
        await ff.complete(await ff.claim_one())
        assert [message.event for message in await feed.rest()] == [
            "superseded",
            "attempt",
            "state",
            "state",
            "end",
        ]


async def test_an_execution_that_never_ran_ends_too_and_may_be_replayed(api: Api) -> None:
    ff = driver(api)
    execution_id = await ff.create(execution_deadline_at=ff.store.now() + 1)
    async with listen(api, path(execution_id)) as feed:
        told = await feed.rest()
    assert brief(told) == [("state", "waiting"), ("state", "expired"), ("end", "expired")]
    await ff.store.apply(Replay(execution_id=execution_id))
    await ff.complete(await ff.claim_one())
    async with listen(api, path(execution_id), told[-1].id) as feed:
        assert [message.event for message in await feed.rest()] == [
            "state",
            "attempt",
            "state",
            "state",
            "end",
        ]


async def test_readers_that_leave_and_come_back_while_frames_arrive_miss_nothing(api: Api) -> None:
    ff = driver(api)
    task = await ff.running()
    expected = [str(number) for number in range(300)]

    async def work(task: Task) -> None:
        for number in expected:
            await append(ff, task, number.encode())
            if number in {"100", "200"}:
                await ff.store.apply(Release(execution_id=task.execution_id, fence=task.fence))
                task = await ff.claim_one()
        await ff.complete(task)

    async def read(step: int) -> list[Message]:
        seen: list[Message] = []
        last = ""
        while not seen or seen[-1].event != "end":
            async with listen(api, path(task.execution_id), last) as feed:
                for _ in range(step):
                    message = await feed.next()
                    if message is None:
                        break
                    seen.append(message)
                last = seen[-1].id
        return seen

    *stories, _ = await asyncio.gather(read(7), read(23), read(1000), work(task))
    for story in stories:
        assert story == stories[0]
        assert [message.data["payload"] for message in story if message.event == "frame"] == expected
        assert [message.data["attempt_index"] for message in story if message.event == "attempt"] == [0, 1, 2]


async def test_it_is_told_as_it_happens(api: Api) -> None:
    ff = driver(api)
    execution_id = await ff.create()
    async with listen(api, path(execution_id)) as feed:
        await feed.take(1)
        task = await ff.claim_one()
        await feed.take(2)
        begin = time.perf_counter()
        await append(ff, task, b"live")
        (frame,) = await feed.take(1)
        assert time.perf_counter() - begin < 1
        assert frame.data["payload"] == "live"
        await ff.store.apply(
            UpdateProgress(execution_id=execution_id, fence=task.fence, pct=50, message="half")
        )
        (progress,) = await feed.take(1)
        assert (progress.event, progress.id) == ("progress", "")
        assert (progress.data["pct"], progress.data["message"]) == (50, "half")
        await ff.complete(task)
        assert brief(await feed.rest()) == [("state", "completed"), ("end", "completed")]


async def test_progress_is_not_told_again_to_who_has_seen_more(api: Api) -> None:
    ff = driver(api)
    task = await ff.running()
    await append(ff, task, b"early")
    await next_millisecond(ff.store)
    await ff.store.apply(UpdateProgress(execution_id=task.execution_id, fence=task.fence, pct=50))
    await next_millisecond(ff.store)
    await append(ff, task, b"late")
    await ff.complete(task)
    async with listen(api, path(task.execution_id)) as feed:
        story = await feed.rest()
    seen = brief(story)
    assert seen[3:] == [
        ("frame", "early"),
        ("progress", 50),
        ("frame", "late"),
        ("state", "completed"),
        ("end", "completed"),
    ]
    for place in (3, 5, 6):
        async with listen(api, path(task.execution_id), story[place].id) as feed:
            assert brief(await feed.rest()) == seen[place + 1 :]


async def test_what_is_told_after_a_purge_is_an_end(api: Api) -> None:
    ff = driver(api)
    task = await ff.running()
    async with listen(api, path(task.execution_id)) as feed:
        await feed.take(3)
        forgetful: Any = _Forgetful(api.store)
        api.server.live.store = forgetful
        await append(ff, task, b"x")
        assert brief(await feed.rest()) == [("end", None)]


class _Forgetful:
    """A store that has lost everything."""

    def __init__(self, store: Any) -> None:
        self._store = store

    async def read(self, question: Any) -> Any:
        return await self._store.read(
            type(question)(execution_id="{fp:0}:00000000-0000-4000-8000-000000000000")
        )


async def test_refusals_of_an_execution_feed(api: Api) -> None:
    unknown = "{fp:7}:7c9e6679-7425-40de-944b-e07fc1f90ae7"
    assert (await api.get(path(unknown))).status == 404
    assert (await api.get("/v1/executions/nonsense/events")).status == 400
    execution_id = await driver(api).create()
    for bad in ("x", "1.2", "1.0.5", "-1.0.0-0", f"1.0.{2**60}-0", "1.0.0-0 "):
        reply = await api.get(path(execution_id), last_event_id=bad.strip() + "?")
        assert (reply.status, reply.json["field"]) == (400, "last_event_id")
    head = await api.call("HEAD", path(execution_id))
    assert (head.status, head.headers["content-type"]) == (200, "text/event-stream")
    head = await api.call("HEAD", "/v1/feed")
    assert head.status == 200
    assert api.server.live.open == 0
    assert api.server.live.feed._users == 0


async def test_comments_keep_an_idle_line_awake(api: Api) -> None:
    api.server.live.heartbeat_seconds = 0.05
    execution_id = await driver(api).create()
    async with listen(api, path(execution_id)) as feed, listen(api, "/v1/feed") as everything:
        await feed.take(1)
        reading = [asyncio.create_task(one.rest()) for one in (feed, everything)]
        await until(lambda: min(feed.comments, everything.comments) >= 4)
        for task in reading:
            task.cancel()


# Slow readers, limits, ends.


async def _still(api: Api, target: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Ask for a stream with a small window, and read nothing."""
    base = urlsplit(api.base)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, (base.hostname, base.port))
    reader, writer = await asyncio.open_connection(sock=sock, limit=1024)
    writer.write(f"GET {target} HTTP/1.1\r\nhost: {base.netloc}\r\n\r\n".encode())
    assert b"200" in await reader.readline()
    return reader, writer


async def _drain(reader: asyncio.StreamReader) -> bytes:
    text = bytearray()
    async with asyncio.timeout(20):
        while chunk := await reader.read(65_536):
            text += chunk
            if text.endswith(b"0\r\n\r\n"):
                break
    return bytes(text)


async def test_a_reader_of_the_feed_that_does_not_read_is_dropped(api: Api) -> None:
    ff = driver(api)
    api.server.live.buffer = 200
    reader, writer = await _still(api, "/v1/feed")
    await until(lambda: api.server.live.feed._listeners)
    (listener,) = api.server.live.feed._listeners
    while not listener.overrun:
        await asyncio.gather(*(ff.create(execution_kind="k" * 200) for _ in range(50)))
        assert len(listener._waiting) <= 200
    text = await _drain(reader)
    assert text.count(b"event: overrun") == 1
    assert text.rstrip(b"0\r\n").rstrip().endswith(b'"}')
    assert text.rindex(b"event: overrun") > text.rindex(b"event: state")
    places = [int(line[4:]) for line in text.split(b"\n") if line.startswith(b"id: ")]
    assert [str(place) for place in places] == await told(api, len(places)), (
        "nothing is left out before the end"
    )
    writer.close()


async def test_a_reader_of_an_execution_that_is_too_slow_is_dropped(api: Api) -> None:
    ff = driver(api)
    api.server.live.slow_seconds = 0.2
    task = await ff.running()
    for _ in range(20):
        await append(ff, task, *([b"x" * 60_000] * 8))
    reader, writer = await _still(api, path(task.execution_id))
    await asyncio.sleep(1)
    text = await _drain(reader)
    assert text.count(b"event: overrun") == 1
    assert text.count(b"event: frame") < 160
    writer.close()


async def test_a_reader_that_never_reads_is_let_go(api: Api) -> None:
    ff = driver(api)
    api.server.live.give_up_seconds = 0.2
    task = await ff.running()
    for _ in range(20):
        await append(ff, task, *([b"x" * 60_000] * 8))
    _, writer = await _still(api, path(task.execution_id))
    await until(lambda: not api.server.live.open)
    writer.close()


async def test_there_is_a_limit(api: Api) -> None:
    api.server.live.limit = 2
    execution_id = await driver(api).create()
    async with listen(api, path(execution_id)) as feed, listen(api, "/v1/feed"):
        await feed.take(1)
        for target in (path(execution_id), "/v1/feed"):
            refused = await api.get(target)
            assert (refused.status, refused.json["code"]) == (429, "resource_exhausted")
            assert refused.json["retryable"]
            assert "retry-after" in refused.headers
    await until(lambda: not api.server.live.open)
    async with listen(api, "/v1/feed"):
        pass


async def test_streams_end_with_the_server(api: Api) -> None:
    execution_id = await driver(api).create()
    async with listen(api, path(execution_id)) as feed, listen(api, "/v1/feed") as everything:
        await feed.take(1)
        api.server.stopping.set()
        assert await feed.rest(5) == []
        assert await everything.rest(5) == []
    assert (await api.get("/v1/feed")).status == 503


async def test_a_thousand_idle_listeners_ask_the_store_nothing(
    serve: Serve, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with counting(backend, monkeypatch) as reached:
        await _a_thousand_listen(await serve(), reached, monkeypatch)


async def _a_thousand_listen(api: Api, reached: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 8192), hard), hard))
    api.server.live.heartbeat_seconds = (
        3_600  # none falls into the second that is counted, however slow the machine
    )
    ff = driver(api)
    ids = [await ff.create() for _ in range(20)]
    live = await ff.create(lane_id="live")
    asked: Counter[str] = Counter()
    read = api.store.read

    async def counted(question: Question[Any]) -> Any:
        asked[type(question).__name__] += 1
        return await read(question)

    monkeypatch.setattr(api.store, "read", counted)

    async with (
        contextlib.AsyncExitStack() as stack,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        many = Api(api.server, api.store, api.base, session)

        async def idle(number: int) -> Feed:
            target = "/v1/feed?lane=none" if number % 2 else path(ids[number % 20])
            return await stack.enter_async_context(listen(many, target))

        feeds = [await idle(number) for number in range(1000)]
        for feed in feeds[::2]:
            await feed.take(1)
        following = await stack.enter_async_context(listen(many, path(live)))
        await following.take(1)
        asked.clear()
        assert await reached.rate(1, 20) < 20, reached.seen
        assert api.server.live.open == 1001
        assert asked["ReadFeed"] <= 2
        assert asked["Describe"] == asked["ReadHistory"] == asked["TailStream"] == 0
        asked.clear()
        task = await ff.claim_one(lanes=("live",))
        await append(ff, task, b"hello")
        told = brief(await following.take(3, 5))
        assert told == [("attempt", "initial"), ("state", "active"), ("frame", "hello")]
        assert asked["Describe"] <= 3
        assert asked["ReadFeed"] <= 3
