"""Limits below HTTP, over raw sockets."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import pytest

from flowfabric.server import listener, transport
from flowfabric.server.server import Server
from flowfabric.server.settings import Settings
from flowfabric.server.transport import Limits
from flowfabric.storage import open_store

QUICK = {"head_seconds": 0.4, "body_idle_seconds": 0.4}
HEALTH = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


class Line:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> Answer:
        async with asyncio.timeout(8):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            status = int(head.split(" ")[1])
            headers = {k.lower(): v for k, v in re.findall(r"^([^:\r\n]+): (.*?)\r$", head, re.MULTILINE)}
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return Answer(status, headers, json.loads(body) if body else None)

    async def ended(self) -> bool:
        """Whether the server says nothing more."""
        async with asyncio.timeout(8):
            return not await self.reader.read()


Open = Callable[[], Awaitable[Line]]
Serve = Callable[..., Awaitable[Open]]


@pytest.fixture
async def serve(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Serve]:
    """Start a server with its own limits; returns what opens connections to it."""
    monkeypatch.setattr(transport, "SWEEP_SECONDS", 0.05)
    monkeypatch.setattr(transport, "LINGER_SECONDS", 0.5)
    async with AsyncExitStack() as stack:

        async def start(*, keep_alive: float = 75, settings: Settings | None = None, **limits: Any) -> Open:
            monkeypatch.setattr(listener, "KEEP_ALIVE_SECONDS", keep_alive)
            monkeypatch.setattr(listener, "Limits", lambda **given: Limits(**{**given, **limits}))
            chosen = settings or Settings(listen=("127.0.0.1", 0))
            store = await open_store(":memory:")
            stack.push_async_callback(store.close)
            server = await Server.start(chosen, store=store)
            stack.push_async_callback(server.shutdown)
            sockets = listener.bind(chosen)
            address = sockets[0].getsockname()
            ready = asyncio.Event()
            serving = asyncio.create_task(server.serve(sockets, ready.set))

            async def end() -> None:
                server.stop()
                await serving

            stack.push_async_callback(end)
            await ready.wait()

            async def connect() -> Line:
                reader, writer = await asyncio.open_connection(*address)
                stack.callback(writer.close)
                return Line(reader, writer)

            return connect

        yield start


def submit(body: bytes, *more: bytes, length: int | None = None) -> bytes:
    lines = [
        b"POST /v1/submit HTTP/1.1",
        b"host: localhost",
        b"content-type: application/json",
        b"content-length: %d" % (len(body) if length is None else length),
        *more,
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


async def test_a_connection_is_used_again(serve: Serve) -> None:
    line = await (await serve())()
    for _ in range(3):
        await line.send(HEALTH)
        assert (await line.answer()).status == 200


async def test_requests_may_follow_without_waiting(serve: Serve) -> None:
    line = await (await serve())()
    await line.send(submit(b'{"kind":"x"}') + HEALTH + submit(b'{"kind":"y"}'))
    assert [(await line.answer()).status for _ in range(3)] == [201, 200, 201]


@pytest.mark.parametrize("pieces", [1, 40])
async def test_a_head_that_is_too_large_is_431(serve: Serve, pieces: int) -> None:
    line = await (await serve())()
    head = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n" + b"".join(
        b"x-%d: %s\r\n" % (number, b"y" * (70_000 // pieces)) for number in range(pieces)
    )
    await line.send(head + b"\r\n")
    answer = await line.answer()
    assert (answer.status, answer.headers["connection"]) == (431, "close")
    assert answer.body["code"] == "headers_too_large"
    assert await line.ended()


async def test_a_head_that_never_ends_is_431_as_soon_as_it_is_too_large(serve: Serve) -> None:
    line = await (await serve())()
    await line.send(b"GET /livez HTTP/1.1\r\nx: " + b"y" * 70_000)
    assert (await line.answer()).status == 431


async def test_a_head_within_the_limit_passes(serve: Serve) -> None:
    line = await (await serve())()
    await line.send(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 60_000 + b"\r\n\r\n")
    assert (await line.answer()).status == 200


async def test_a_large_body_does_not_count_as_head(serve: Serve) -> None:
    line = await (await serve())()
    body = b'{"kind":"x","input":"%s"}' % (b"y" * 900_000)
    await line.send(submit(body) + submit(body) + HEALTH)
    assert [(await line.answer()).status for _ in range(3)] == [201, 201, 200]


async def test_a_url_that_is_too_long_is_414(serve: Serve) -> None:
    line = await (await serve())()
    await line.send(b"GET /livez?" + b"x" * 20_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n")
    answer = await line.answer()
    assert (answer.status, answer.body["code"]) == (414, "uri_too_long")


@pytest.mark.parametrize("begin", [b"", b"GET /livez HT"])
async def test_a_head_that_does_not_come_is_408(serve: Serve, begin: bytes) -> None:
    line = await (await serve(**QUICK))()
    await line.send(begin)
    answer = await line.answer()
    assert (answer.status, answer.body["code"], answer.body["retryable"]) == (408, "request_timeout", True)
    assert await line.ended()


async def test_drops_of_a_head_do_not_prolong_its_time(serve: Serve) -> None:
    line = await (await serve(**QUICK))()

    async def drip() -> None:
        for byte in b"GET /livez HTTP/1.1\r\nhost: localhost\r\n":
            await line.send(bytes([byte]))
            await asyncio.sleep(0.1)

    dripping = asyncio.create_task(drip())
    assert (await line.answer()).status == 408
    dripping.cancel()
    await asyncio.gather(dripping, return_exceptions=True)


async def test_the_second_head_has_its_own_time(serve: Serve) -> None:
    line = await (await serve(**QUICK))()
    await line.send(HEALTH)
    await line.answer()
    await asyncio.sleep(0.6)  # idle is not slow
    await line.send(HEALTH[:10])
    assert (await line.answer()).status == 408


async def test_a_body_that_stops_is_408(serve: Serve) -> None:
    line = await (await serve(**QUICK))()
    await line.send(submit(b'{"kind"', length=100))
    answer = await line.answer()
    assert (answer.status, answer.body["code"]) == (408, "request_timeout")
    assert await line.ended()


async def test_a_slow_body_is_read_as_long_as_it_goes_on(serve: Serve) -> None:
    line = await (await serve(**QUICK))()
    body = b'{"kind":"x"}'
    await line.send(submit(b"", length=len(body)))
    for byte in body:
        await asyncio.sleep(0.1)
        await line.send(bytes([byte]))
    assert (await line.answer()).status == 201


async def test_a_body_has_a_time_in_all(serve: Serve) -> None:
    line = await (await serve(body_idle_seconds=5, body_seconds=0.4))()
    await line.send(submit(b"{", length=100))
    assert (await line.answer()).status == 408


async def test_a_long_answer_is_not_a_slow_client(serve: Serve) -> None:
    line = await (await serve(**QUICK))()
    body = json.dumps({"worker_instance_id": "i", "lanes": ["default"], "wait_ms": 1000}).encode()
    await line.send(submit(body).replace(b"/v1/submit", b"/v1/workers/w/tasks"))
    assert (await line.answer()).status in {200, 404}


async def test_expect_100_continue(serve: Serve) -> None:
    line = await (await serve())()
    body = b'{"kind":"x"}'
    await line.send(submit(b"", b"expect: 100-continue", length=len(body)))
    assert await line.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    await line.send(body)
    assert (await line.answer()).status == 201
    await line.send(HEALTH)
    assert (await line.answer()).status == 200


async def test_a_body_that_nobody_asked_for_ends_the_connection(serve: Serve) -> None:
    line = await (await serve())()
    await line.send(submit(b"", b"expect: 100-continue", length=10**9))
    assert (await line.answer()).status == 413
    assert await line.ended()


async def test_a_refused_upload_still_hears_the_answer(serve: Serve) -> None:
    line = await (await serve())()
    await line.send(submit(b"x" * 3_000_000))
    answer = await line.answer()
    assert (answer.status, answer.body["limit_bytes"]) == (413, 2_097_152)
    assert await line.ended()


async def test_nonsense_is_400(serve: Serve) -> None:
    line = await (await serve())()
    await line.send(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
    answer = await line.answer()
    assert (answer.status, answer.body["code"]) == (400, "bad_request")
    assert answer.body["request_id"] == answer.headers["x-request-id"]


async def test_nonsense_behind_a_request_does_not_replace_its_answer(serve: Serve) -> None:
    line = await (await serve())()
    await line.send(submit(b'{"kind":"x"}') + b"\x16\x03\x01 nonsense\r\n\r\n")
    assert (await line.answer()).status == 201
    assert await line.ended()


async def test_an_idle_connection_is_closed(serve: Serve) -> None:
    line = await (await serve(keep_alive=0.3))()
    await line.send(HEALTH + b"\r\n")  # an empty line begins no request
    assert (await line.answer()).status == 200
    assert await line.ended()


async def test_too_many_connections_are_503(serve: Serve) -> None:
    connect = await serve(settings=Settings(listen=("127.0.0.1", 0), max_connections=2))
    first, second = await connect(), await connect()
    for line in (first, second):
        await line.send(HEALTH)
        assert (await line.answer()).status == 200
    third = await connect()
    answer = await third.answer()
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert answer.body["code"] == "too_many_connections"
    assert await third.ended()
    for line in (first, third):
        line.writer.close()
    async with asyncio.timeout(10):
        status = 0
        while status != 200:  # as soon as the server has seen that the first is gone
            fourth = await connect()
            await fourth.send(HEALTH)
            status = (await fourth.answer()).status
            fourth.writer.close()
            await fourth.writer.wait_closed()
