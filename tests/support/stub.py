"""A server that says what a test tells it to say, and a line between client and server that breaks on demand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from flowfabric.client import Limits
from flowfabric.model.ids import Partitions

QUICK = Limits(first_pause_seconds=0.0, longest_pause_seconds=0.0, request_seconds=20.0)
STATS = {"partitions": {name: getattr(Partitions(), name) for name in Partitions.__struct_fields__}}

Handler = Callable[[web.Request], Any]


class Stub:
    """Answers with what was put in its list, in order; notes what it was asked."""

    def __init__(self) -> None:
        self.answers: list[Handler | web.Response] = []
        self.asked: list[tuple[str, str, bytes]] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/v1/stats":
            return web.json_response(STATS)
        self.asked.append((request.method, request.path, await request.read()))
        self.headers.append(dict(request.headers))
        answer = self.answers.pop(0)
        if isinstance(answer, web.Response):
            return answer
        reply: web.StreamResponse = await answer(request)
        return reply


def refusal(status: int, code: str, *, retryable: bool, **headers: str) -> web.Response:
    body = {"error": code, "code": code, "kind": code, "retryable": retryable, "request_id": "r"}
    return web.json_response(
        body, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()}
    )


@asynccontextmanager
async def stubbed() -> AsyncIterator[Stub]:
    """Start a stub on a free port."""
    stub = Stub()
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", stub.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    stub.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]
    try:
        yield stub
    finally:
        await runner.cleanup()


class Line:
    """A TCP relay. While `cut_after` is set, the next answer is cut after so many bytes, and the line is closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.cut_after: int | None = None
        self.cuts = 0
        self.url = ""
        self._tasks: set[asyncio.Task[None]] = set()

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)

        async def onward() -> None:
            while data := await reader.read(65_536):
                back.write(data)
            back.close()

        sending = asyncio.create_task(onward())
        self._tasks.add(sending)
        try:
            while data := await there.read(65_536):
                if self.cut_after is not None:
                    writer.write(data[: self.cut_after])
                    self.cut_after = None
                    self.cuts += 1
                    break
                writer.write(data)
        finally:
            sending.cancel()
            for end in (writer, back):
                end.close()


@asynccontextmanager
async def line_to(url: str) -> AsyncIterator[Line]:
    """Put a line between a client and a server."""
    line = Line(int(url.rpartition(":")[2]))
    relay = await asyncio.start_server(line.relay, "127.0.0.1", 0)
    line.url = f"http://127.0.0.1:{relay.sockets[0].getsockname()[1]}"
    try:
        yield line
    finally:
        relay.close()
        for task in line._tasks:
            task.cancel()
        await asyncio.gather(*line._tasks, return_exceptions=True)
