"""How an answer leaves: in pieces, so that little of it waits in memory, and counted until its reader has taken it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from flowfabric.server.http.call import Response, encode
from flowfabric.wire.errors import HttpError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

CONNECTION: Final = "flowfabric.connection"
"""Where a scope holds the connection of its request."""
CHUNK: Final = 65_536
UNREAD_BYTES: Final = 64 * 1024 * 1024
FULL: Final = "too much waits to be read by other clients; retry with backoff"
Headers = list[tuple[bytes, bytes]]


class Unread:
    """Large answers of all connections that have not left yet, in bytes."""

    def __init__(self, most: int = UNREAD_BYTES) -> None:
        self.most = most
        self.held = 0
        self.full = False
        """Whether an answer was refused, and no room has been made since."""

    def check(self, size: int) -> None:
        """Refuse a large answer when there is no room for it; one alone may be as large as it is."""
        if size > CHUNK and self.held and self.held + size > self.most:
            self.full = True
            raise HttpError(503, FULL, "resource_exhausted", retryable=True)


class ServedConnection(Protocol):
    """What sending needs to know of a connection."""

    unread: ClassVar[Unread]
    owed: int

    @property
    def lost(self) -> bool:
        """Whether nothing more can leave."""

    async def flushed(self) -> None:
        """Wait until everything that was written has left."""


class Outgoing:
    """An answer that is ready to be sent: status, headers, and bytes or a source of them."""

    def __init__(self, scope: Scope, answer: Response, request_id: str) -> None:
        self._head = scope["method"] == "HEAD"
        self._connection: ServedConnection | None = scope.get(CONNECTION)
        self._status = answer.status
        self._pieces = answer.pieces
        self._parts: list[bytes] = []
        self._headers = _headers(answer, request_id)
        if answer.status != 204 and answer.pieces is None:
            self._parts = answer.parts if answer.parts is not None else [_whole(answer)]
        self._size = sum(map(len, self._parts))
        if answer.status != 204 and answer.pieces is None:
            self._headers.append((b"content-length", str(self._size).encode()))
        # What has changed something is told in any case.
        if scope["method"] == "GET" and self._connection is not None:
            self._connection.unread.check(self._size)

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it, and return when it has left."""
        await send({"type": "http.response.start", "status": self._status, "headers": self._headers})
        if self._head or (self._pieces is None and self._size <= CHUNK):
            await send({"type": "http.response.body", "body": b"" if self._head else b"".join(self._parts)})
            return
        with owing(self._connection, self._size):
            async for piece in _each(self._parts) if self._pieces is None else self._pieces:
                with owing(self._connection, len(piece) if self._pieces is not None else 0):
                    await self._put(send, memoryview(piece))
                if self._connection is not None and self._connection.lost:
                    break
        if self._connection is not None:
            await self._connection.flushed()
        await send({"type": "http.response.body", "body": b""})

    async def _put(self, send: Send, data: memoryview) -> None:
        """Send bytes, each part when the part before has gone far enough."""
        for at in range(0, len(data), CHUNK):
            await send({"type": "http.response.body", "body": data[at : at + CHUNK], "more_body": True})


def _whole(answer: Response) -> bytes:
    return answer.raw if answer.raw is not None else encode(answer.value)


async def _each(parts: list[bytes]) -> AsyncIterator[bytes]:
    """Take parts out of their list, the first one first."""
    parts.reverse()
    while parts:
        yield parts.pop()


def _headers(answer: Response, request_id: str) -> Headers:
    headers = [(b"x-request-id", request_id.encode())]
    if answer.status != 204:
        headers.append((b"content-type", answer.content_type.encode()))
    for name, value in answer.headers:
        if not value.isprintable():
            raise ValueError(f"a header cannot hold this: {name}: {value!r}")
        headers.append((name.encode(), value.encode("latin-1")))
    return headers


@contextmanager
def owing(connection: ServedConnection | None, size: int) -> Iterator[None]:
    """Count bytes that a client has still to take."""
    if connection is None:
        yield
        return
    connection.owed += size
    connection.unread.held += size
    try:
        yield
    finally:
        connection.owed -= size
        connection.unread.held -= size
