"""Limits below HTTP, over raw sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from flowfabric.server.settings import Settings
from support.raw import HEALTH, RawServe, raw_servers

QUICK = {"head_seconds": 0.4, "body_idle_seconds": 0.4}


@pytest.fixture
async def serve(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RawServe]:
    async with raw_servers(monkeypatch) as start:
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


async def test_a_connection_is_used_again(serve: RawServe) -> None:
    line = await (await serve())()
    for _ in range(3):
        await line.send(HEALTH)
        assert (await line.answer()).status == 200


async def test_requests_may_follow_without_waiting(serve: RawServe) -> None:
    line = await (await serve())()
    await line.send(submit(b'{"kind":"x"}') + HEALTH + submit(b'{"kind":"y"}'))
    assert [(await line.answer()).status for _ in range(3)] == [201, 200, 201]


@pytest.mark.parametrize("pieces", [1, 40])
async def test_a_head_that_is_too_large_is_431(serve: RawServe, pieces: int) -> None:
    line = await (await serve())()
    head = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n" + b"".join(
        b"x-%d: %s\r\n" % (number, b"y" * (70_000 // pieces)) for number in range(pieces)
    )
    await line.send(head + b"\r\n")
    answer = await line.answer()
    assert (answer.status, answer.headers["connection"]) == (431, "close")
    assert answer.body["code"] == "headers_too_large"
    assert await line.ended()


async def test_a_head_that_never_ends_is_431_as_soon_as_it_is_too_large(serve: RawServe) -> None:
    line = await (await serve())()
    await line.send(b"GET /livez HTTP/1.1\r\nx: " + b"y" * 70_000)
    assert (await line.answer()).status == 431


async def test_a_head_within_the_limit_passes(serve: RawServe) -> None:
    line = await (await serve())()
    await line.send(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 60_000 + b"\r\n\r\n")
    assert (await line.answer()).status == 200


async def test_a_large_body_does_not_count_as_head(serve: RawServe) -> None:
    line = await (await serve())()
    body = b'{"kind":"x","input":"%s"}' % (b"y" * 900_000)
    await line.send(submit(body) + submit(body) + HEALTH)
    assert [(await line.answer()).status for _ in range(3)] == [201, 201, 200]


async def test_a_url_that_is_too_long_is_414(serve: RawServe) -> None:
    line = await (await serve())()
    await line.send(b"GET /livez?" + b"x" * 20_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n")
    answer = await line.answer()
    assert (answer.status, answer.body["code"]) == (414, "uri_too_long")


@pytest.mark.parametrize("begin", [b"", b"GET /livez HT"])
async def test_a_head_that_does_not_come_is_408(serve: RawServe, begin: bytes) -> None:
    line = await (await serve(**QUICK))()
    await line.send(begin)
    answer = await line.answer()
    assert (answer.status, answer.body["code"], answer.body["retryable"]) == (408, "request_timeout", True)
    assert await line.ended()


async def test_drops_of_a_head_do_not_prolong_its_time(serve: RawServe) -> None:
    line = await (await serve(**QUICK))()

    async def drip() -> None:
        for byte in b"GET /livez HTTP/1.1\r\nhost: localhost\r\n":
            await line.send(bytes([byte]))
            await asyncio.sleep(0.1)

    dripping = asyncio.create_task(drip())
    assert (await line.answer()).status == 408
    dripping.cancel()
    await asyncio.gather(dripping, return_exceptions=True)


async def test_the_second_head_has_its_own_time(serve: RawServe) -> None:
    line = await (await serve(**QUICK))()
    await line.send(HEALTH)
    await line.answer()
    await asyncio.sleep(0.6)  # idle is not slow
    await line.send(HEALTH[:10])
    assert (await line.answer()).status == 408


async def test_a_body_that_stops_is_408(serve: RawServe) -> None:
    line = await (await serve(**QUICK))()
    await line.send(submit(b'{"kind"', length=100))
    answer = await line.answer()
    assert (answer.status, answer.body["code"]) == (408, "request_timeout")
    assert await line.ended()


async def test_a_slow_body_is_read_as_long_as_it_goes_on(serve: RawServe) -> None:
    line = await (await serve(**QUICK))()
    body = b'{"kind":"x"}'
    await line.send(submit(b"", length=len(body)))
    for byte in body:
        await asyncio.sleep(0.1)
        await line.send(bytes([byte]))
    assert (await line.answer()).status == 201


async def test_a_body_has_a_time_in_all(serve: RawServe) -> None:
    line = await (await serve(body_idle_seconds=5, body_seconds=0.4))()
    await line.send(submit(b"{", length=100))
    assert (await line.answer()).status == 408


async def test_a_long_answer_is_not_a_slow_client(serve: RawServe) -> None:
    line = await (await serve(**QUICK))()
    body = json.dumps({"worker_instance_id": "i", "lanes": ["default"], "wait_ms": 1000}).encode()
    await line.send(submit(body).replace(b"/v1/submit", b"/v1/workers/w/tasks"))
    assert (await line.answer()).status in {200, 404}


async def test_expect_100_continue(serve: RawServe) -> None:
    line = await (await serve())()
    body = b'{"kind":"x"}'
    await line.send(submit(b"", b"expect: 100-continue", length=len(body)))
    assert await line.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    await line.send(body)
    assert (await line.answer()).status == 201
    await line.send(HEALTH)
    assert (await line.answer()).status == 200


async def test_a_body_that_nobody_asked_for_ends_the_connection(serve: RawServe) -> None:
    line = await (await serve())()
    await line.send(submit(b"", b"expect: 100-continue", length=10**9))
    assert (await line.answer()).status == 413
    assert await line.ended()


async def test_a_refused_upload_still_hears_the_answer(serve: RawServe) -> None:
    line = await (await serve())()
    await line.send(submit(b"x" * 3_000_000))
    answer = await line.answer()
    assert (answer.status, answer.body["limit_bytes"]) == (413, 2_097_152)
    assert await line.ended()


async def test_nonsense_is_400(serve: RawServe) -> None:
    line = await (await serve())()
    await line.send(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
    answer = await line.answer()
    assert (answer.status, answer.body["code"]) == (400, "bad_request")
    assert answer.body["request_id"] == answer.headers["x-request-id"]


async def test_nonsense_behind_a_request_does_not_replace_its_answer(serve: RawServe) -> None:
    line = await (await serve())()
    await line.send(submit(b'{"kind":"x"}') + b"\x16\x03\x01 nonsense\r\n\r\n")
    assert (await line.answer()).status == 201
    assert await line.ended()


async def test_an_idle_connection_is_closed(serve: RawServe) -> None:
    line = await (await serve(keep_alive=0.3))()
    await line.send(HEALTH + b"\r\n")  # an empty line begins no request
    assert (await line.answer()).status == 200
    assert await line.ended()


async def test_too_many_connections_are_503(serve: RawServe) -> None:
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


async def test_trailers_are_not_headers(serve: RawServe) -> None:
    connect = await serve(settings=Settings(listen=("127.0.0.1", 0), api_token="let-me-in"))
    head = b"POST /v1/submit HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n"
    body = b'c\r\n{"kind":"x"}\r\n0\r\n'
    kind, token = b"content-type: application/json\r\n", b"authorization: Bearer let-me-in\r\n"
    for sent, status in (
        (head + kind + token + b"\r\n" + body + b"\r\n", 201),
        (head + kind + b"\r\n" + body + token + b"\r\n", 401),
        (head + token + b"\r\n" + body + kind + b"\r\n", 415),
        (head + kind + token + b"\r\n" + body + b"x-request-id: from-the-trailer\r\n\r\n", 201),
    ):
        line = await connect()
        await line.send(sent)
        answer = await line.answer()
        assert answer.status == status
        assert answer.headers["x-request-id"] != "from-the-trailer"
        await line.send(HEALTH)
        assert (await line.answer()).status == 200


async def test_trailers_without_end_are_431(serve: RawServe) -> None:
    line = await (await serve())()
    head = b"POST /v1/submit HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n0\r\n"
    await line.send(head + b"".join(b"x-%d: %s\r\n" % (n, b"y" * 1_000) for n in range(70)))
    assert (await line.answer()).status in {415, 431}
    assert await line.ended()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /livez HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost: localhost\r\nHOST: evil.example\r\n\r\n",
        b"OPTIONS /v1/submit HTTP/1.1\r\nhost: localhost\r\nhost: x\r\n\r\n",
        b"POST /v1/submit HTTP/1.0\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /livez HTTP/1.0\r\nhost: localhost\r\ntransfer-encoding: identity\r\n\r\n",
    ],
)
async def test_what_could_be_read_in_two_ways_is_400(serve: RawServe, head: bytes) -> None:
    line = await (await serve())()
    await line.send(head)
    answer = await line.answer()
    assert (answer.status, answer.body["code"], answer.body["kind"]) == (400, "bad_request", "bad_request")
    assert await line.ended()


async def test_many_requests_may_follow_without_waiting(serve: RawServe) -> None:
    line = await (await serve())()
    sending = asyncio.create_task(line.send((submit(b'{"kind":"x"}') + HEALTH) * 1_000))
    for _ in range(1_000):
        assert [(await line.answer()).status, (await line.answer()).status] == [201, 200]
    await sending
