"""Answers that nobody reads: how long they may stay, and how much of them there may be."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from flowfabric.server.access.permits import Permits, WaitedPermits
from flowfabric.server.settings import Settings
from support.raw import HEALTH, Door, Line, RawServe, raw_servers
from support.until import until

NARROW = 4096
"""A window of the client so small that little hides in it; the system of the server hides a few MB."""
LARGE = b'"' + b"x" * 1_000_000 + b'"'
QUICK = {"answer_idle_seconds": 0.5}


@pytest.fixture
async def serve(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RawServe]:
    async with raw_servers(monkeypatch) as start:
        yield start


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()


async def post(line: Line, path: str, body: bytes) -> dict[str, object]:
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    await line.send(head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body)
    answer = await line.answer()
    assert answer.status < 300, answer
    found: dict[str, object] = answer.body
    return found


async def result_path(connect: Door) -> str:
    """Complete an execution with a large result; returns where it is."""
    line = await connect()
    execution_id = (await post(line, "/v1/submit", b'{"kind":"x"}'))["execution_id"]
    fence = await claim(line)
    body = b'{"fence":%s,"result":%s}' % (fence, LARGE)
    await post(line, f"/v1/executions/{execution_id}/complete", body)
    return f"/v1/executions/{execution_id}/result"


async def stream_path(connect: Door, megabytes: int = 24) -> str:
    """Write frames of an execution; returns where they are."""
    line = await connect()
    execution_id = (await post(line, "/v1/submit", b'{"kind":"x"}'))["execution_id"]
    fence = await claim(line)
    frame = json.dumps({"frame_type": "delta", "payload": "x" * 60_000})
    frames = f"[{','.join([frame] * 50)}]".encode()
    for _ in range(megabytes // 3):
        body = b'{"fence":%s,"frames":%s}' % (fence, frames)
        await post(line, f"/v1/executions/{execution_id}/frames", body)
    return f"/v1/executions/{execution_id}"


async def claim(line: Line) -> bytes:
    asked = b'{"worker_instance_id":"w-1","lanes":["default"],"lease_ttl_ms":600000}'
    claimed: Any = await post(line, "/v1/workers/w/tasks", asked)
    return json.dumps(claimed["tasks"][0]["fence"]).encode()


async def gone(connect: Door) -> None:
    """Wait until the server has room for one more connection than the one that it may have."""
    async with asyncio.timeout(20):
        status = 0
        while status != 200:
            line = await connect()
            await line.send(HEALTH)
            status = (await line.answer()).status
            line.writer.close()
            await line.writer.wait_closed()


async def test_an_answer_that_nobody_reads_is_closed(serve: RawServe) -> None:
    settings = Settings(listen=("127.0.0.1", 0), max_connections=1, api_token="t")
    connect = await serve(settings=settings, **QUICK)
    line = await connect(window=NARROW)
    await line.send(get("/openapi.json") * 200)
    await gone(connect)


async def test_a_closed_connection_does_not_wait_for_its_reader_either(serve: RawServe) -> None:
    connect = await serve(**QUICK)
    path = await stream_path(connect)
    line = await connect(window=NARROW)
    await line.send(
        get(f"{path}/attempts/0/stream?limit=1000").replace(b"host:", b"connection: close\r\nhost:")
    )
    await until(lambda: connect.server.stream_ops.taken)
    await until(lambda: not connect.server.stream_ops.taken)


async def test_a_feed_that_nobody_reads_is_closed(serve: RawServe) -> None:
    connect = await serve(**QUICK)
    path = await stream_path(connect)
    line = await connect(window=NARROW)
    await line.send(get(f"{path}/events"))
    await until(lambda: connect.server.live.open)
    await until(lambda: not connect.server.live.open)


async def test_a_feed_ends_with_its_reader_whatever_was_sent_behind(serve: RawServe) -> None:
    connect = await serve()
    path = await stream_path(connect, 3)
    line = await connect()
    await line.send(get(f"{path}/events") + HEALTH)
    await until(lambda: connect.server.live.open)
    line.writer.close()
    connect.server.live.heartbeat_seconds = 0.1
    await post(await connect(), "/v1/submit", b'{"kind":"x"}')
    await until(lambda: not connect.server.live.open)


async def test_a_slow_reader_gets_everything(serve: RawServe) -> None:
    connect = await serve(answer_idle_seconds=1.0)
    path = await stream_path(connect)
    line = await connect(window=65_536)
    await line.send(
        get(f"{path}/attempts/0/stream?limit=1000").replace(b"host:", b"connection: close\r\nhost:")
    )
    read = bytearray()
    begin = asyncio.get_running_loop().time()
    while piece := await line.reader.read(400_000):
        read += piece
        if len(read) < 15_000_000:  # later than any limit, and never idle for as long as the limit
            await asyncio.sleep(0.02)
    assert asyncio.get_running_loop().time() - begin > 1.0
    assert read.endswith(b"0\r\n\r\n")
    assert read.count(b'"frame_type"') == 400
    assert b'],"count":400}' in read


async def test_a_permit_is_held_until_the_answer_has_left(serve: RawServe) -> None:
    connect = await serve()
    path = f"{await stream_path(connect)}/attempts/0/stream"
    connect.server.stream_ops = Permits("stream_ops", 1)
    first, second = await connect(window=NARROW), await connect()
    await first.send(get(f"{path}?limit=1000"))
    await until(lambda: connect.server.stream_ops.taken)
    for _ in range(2):
        await second.send(get(f"{path}?limit=1"))
        refused = await second.answer()
        assert (refused.status, refused.body["kind"]) == (429, "resource_exhausted")
    while b"0\r\n\r\n" not in await first.reader.read(1_000_000):
        pass
    await until(lambda: not connect.server.stream_ops.taken)
    await second.send(get(f"{path}?limit=1"))
    assert (await second.answer()).status == 200


async def test_there_is_a_limit_for_all_answers_that_wait(serve: RawServe) -> None:
    connect = await serve(unread_bytes=1_500_000, stalled_seconds=0.5)
    path = await result_path(connect)
    # What the system hides ends in the middle of an answer, or near its end; not for both of them near an end.
    for first in (b"", get("/openapi.json")):
        greedy = await connect(window=NARROW)
        await greedy.send(first + get(path) * 20)
    await until(lambda: connect.server.unread.held)
    line = await connect()
    await line.send(get(path))
    refused = await line.answer()
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    assert (refused.body["code"], refused.body["retryable"]) == ("resource_exhausted", True)
    await line.send(HEALTH)  # what is small always has room
    assert (await line.answer()).status == 200
    await until(lambda: not connect.server.unread.held)  # it was closed to make room
    await line.send(get(path))
    head = await line.reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")


async def test_a_claim_whose_answer_has_no_room_keeps_nothing(serve: RawServe) -> None:
    connect = await serve()
    line = await connect()
    await post(line, "/v1/submit", b'{"kind":"x","input":%s}' % LARGE)
    asked = {"worker_instance_id": "w-1", "lanes": ["default"], "lease_ttl_ms": 600_000}
    unread = connect.server.unread

    async def take(**more: str) -> Any:
        body = json.dumps(asked | more).encode()
        head = b"POST /v1/workers/w/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        await line.send(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        return await line.answer()

    unread.held += unread.most
    assert (await take()).status == 503
    assert (
        await take(claim_id="again")
    ).status == 503  # the first one was given back, this one is remembered
    unread.held -= unread.most
    answer = await take(claim_id="again")
    assert (answer.status, len(answer.body["tasks"])) == (200, 1)


async def test_large_claims_need_a_permit_until_their_answer_has_left(serve: RawServe) -> None:
    connect = await serve()
    connect.server.large_claims = WaitedPermits("large_claims", 1)
    greedy, line = await connect(window=NARROW), await connect()
    for _ in range(14):
        await post(line, "/v1/submit", b'{"kind":"x","input":%s}' % LARGE)
    asked = {"worker_instance_id": "w-1", "lanes": ["default"], "lease_ttl_ms": 600_000}

    async def take(by: Line, count: int, **more: Any) -> None:
        body = json.dumps(asked | more | {"max_tasks": count}).encode()
        head = b"POST /v1/workers/w/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        await by.send(head + b"content-length: %d\r\n\r\n" % len(body) + body)

    await take(greedy, 17)
    await until(lambda: connect.server.unread.held)
    await post(line, "/v1/submit", b'{"kind":"y"}')
    await take(line, 17)
    refused = await line.answer()
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert (refused.body["code"], refused.body["retryable"]) == ("resource_exhausted", True)
    await take(line, 16)  # a few tasks need none
    answer = await line.answer()
    assert (answer.status, [task["execution_kind"] for task in answer.body["tasks"]]) == (200, ["y"])
    await take(line, 17, wait_ms=20_000)  # it waits for the permit, and then for work
    read = bytearray()
    while not read.endswith(b"]}"):
        read += await greedy.reader.read(1_000_000)
    body = json.loads(read.partition(b"\r\n\r\n")[2])
    assert [task["input"] for task in body["tasks"]] == ["x" * 1_000_000] * 14
    await take(greedy, 17)  # whoever waits for work holds no permit
    assert (await greedy.answer()).body == {"tasks": []}
    await post(await connect(), "/v1/submit", b'{"kind":"z"}')
    answer = await line.answer()
    assert (answer.status, [task["execution_kind"] for task in answer.body["tasks"]]) == (200, ["z"])
