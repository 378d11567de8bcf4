"""Requests that arrive slowly or in odd forms: what they may hold, and what is refused."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from support.raw import HEALTH, Line, RawServe, raw_servers
from support.until import until

pytestmark = pytest.mark.one_store
MEGABYTE = 1024 * 1024


@pytest.fixture
async def serve(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RawServe]:
    async with raw_servers(monkeypatch) as start:
        yield start


async def begin(line: Line, size: int, sent: int) -> None:
    """Announce a body and send a part of it."""
    head = f"POST /v1/submit/batch HTTP/1.1\r\nhost: localhost\r\ncontent-length: {size}\r\n"
    await line.send(f"{head}content-type: application/json\r\n\r\n".encode() + b" " * sent)


async def test_bodies_that_do_not_end_are_bounded_in_all(serve: RawServe) -> None:
    connect = await serve()
    unfinished = connect.server.unfinished
    unfinished.most = 4 * MEGABYTE
    lines = [await connect() for _ in range(6)]
    for line in lines[:4]:
        await begin(line, 2 * MEGABYTE, MEGABYTE)
    await until(lambda: unfinished.held == 4 * MEGABYTE)
    await begin(lines[4], 2 * MEGABYTE, MEGABYTE)
    refused = await lines[4].answer()
    assert (refused.status, refused.body["code"]) == (503, "resource_exhausted")
    assert refused.headers["retry-after"]
    await begin(lines[5], 100, 100)  # a small one is served
    assert (await lines[5].answer()).status == 400
    for line in lines[:4]:
        line.writer.close()
    await until(lambda: unfinished.held == 0)


@pytest.mark.parametrize(
    ("head", "text"),
    [
        ("GET /livez HTTP/1.1\r\nhost: a\r\nhost: a\r\n", "more than one Host header"),
        (
            "GET /livez HTTP/1.1\r\nhost: a\r\nauthorization: x\r\nauthorization: y\r\n",
            "more than one Authorization",
        ),
        (
            "POST /v1/submit HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n",
            "as it is, or chunked",
        ),
    ],
)
async def test_heads_that_could_be_read_in_two_ways_are_refused(
    serve: RawServe, head: str, text: str
) -> None:
    line = await (await serve())()
    await line.send(f"{head}\r\n".encode())
    answer = await line.answer()
    assert answer.status == 400
    assert text in answer.body["error"]


async def test_a_reader_that_leaves_is_no_defect(serve: RawServe, caplog: pytest.LogCaptureFixture) -> None:
    connect = await serve()
    with caplog.at_level(logging.WARNING):
        for _ in range(20):
            line = await connect(window=4096)
            await line.send(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * 3)
            line.writer.transport.abort()
        last = await connect()
        await last.send(HEALTH)
        assert (await last.answer()).status == 200
        await until(lambda: connect.server.unread.held == 0)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
