"""Server-sent events on the wire: messages, and a response that ends with its reader."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Final

from flowfabric.model.errors import FlowFabricError
from flowfabric.server.http.call import encode
from flowfabric.server.http.sending import CONNECTION, ServedConnection, owing

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from flowfabric.server.live.feed import Seat

log = logging.getLogger("flowfabric.server")
HELLO: Final = b": connected\n\n"
PING: Final = b": still here\n\n"
TOO_SLOW: Final = "the reader is too slow; go on from the last id"
FAREWELL_SECONDS: Final = 0.5
CHUNK_BYTES: Final = 65_536
"""Messages are joined up to this size, so that a long past does not cost a system call each."""


def message(event: str, data: Any, position: str = "") -> bytes:
    """Write one message; JSON has no line breaks of its own, so the data is one line."""
    place = f"id: {position}\n".encode() if position else b""
    return b"%sevent: %s\ndata: %s\n\n" % (place, event.encode(), encode(data))


def overrun(reason: str, **more: Any) -> bytes:
    """Write the last message of a reader that lost its place. It has no id: the last one still holds."""
    return message("overrun", {"reason": reason, **more})


class EventStream:
    """An answer that goes on until its source ends, its reader leaves, its token opens no more, or the server ends."""

    def __init__(self, seat: Seat, source: AsyncGenerator[bytes, None], request_id: str) -> None:
        seat.taken = True
        self._seat = seat
        self._live = seat.live
        self._source = source
        self._request_id = request_id
        self._connection: ServedConnection | None = None
        self._revoked = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve it."""
        try:
            await self._serve(scope, receive, send)
        finally:
            self._live.leave(self._seat)
            await self._source.aclose()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._connection = scope.get(CONNECTION)
        headers = [
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
            (b"x-request-id", self._request_id.encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        writing = asyncio.create_task(self._write(send))
        leaving = asyncio.create_task(_gone(receive))
        self._live.streams.add(writing)

        def revoke() -> None:
            self._revoked = True
            writing.cancel()

        try:
            with self._live.revocation.watching(self._seat.principal, revoke):
                await asyncio.wait({writing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._live.streams.discard(writing)
            writing.cancel()
            leaving.cancel()
            results = await asyncio.gather(writing, leaving, return_exceptions=True)
            _report(results[0])

    async def _write(self, send: Send) -> None:
        try:
            await self._messages(send)
        except asyncio.CancelledError:
            if not self._live.stopping.is_set() and not self._revoked:
                raise
        except TimeoutError:  # it reads nothing at all; there is no way to tell it so
            return
        with contextlib.suppress(TimeoutError):  # who does not read gets no farewell
            async with asyncio.timeout(FAREWELL_SECONDS):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _messages(self, send: Send) -> None:
        await self._put(send, HELLO)
        async for chunk in self._source:
            if await self._put(send, chunk) > self._live.slow_seconds:
                await self._put(send, overrun(TOO_SLOW))
                return

    async def _put(self, send: Send, chunk: bytes) -> float:
        """Send a chunk, and return how long the reader made us wait."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        with owing(self._connection, len(chunk)):
            async with asyncio.timeout(self._live.give_up_seconds):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        return loop.time() - begin


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _report(result: object) -> None:
    """Say what ended a stream that should have gone on; its reader comes back with the last id."""
    if isinstance(result, FlowFabricError):
        log.warning("a live feed ends early: %s", result)
    elif isinstance(result, Exception) and not isinstance(result, OSError):
        log.error("a defect in a live feed", exc_info=result)
