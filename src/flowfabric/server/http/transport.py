"""Limits below HTTP: how long a client may take to send and to read, how large a head may be, how many may come.

A refused client that still sends is read and ignored for a moment before the connection closes: closing at once would
make its system discard the answer. What a client sends before it has read the answer to what it sent before is left in
the system: it is neither read nor parsed.
"""

from __future__ import annotations

import asyncio
import time
from http import HTTPStatus
from typing import Any, ClassVar, Final

from msgspec import Struct
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from flowfabric.server.http.call import encode
from flowfabric.server.http.sending import CONNECTION, UNREAD_BYTES, Unread
from flowfabric.storage.minting import new_uuid
from flowfabric.wire.errors import HttpError

LINGER_SECONDS: Final = 2.0
SWEEP_SECONDS: Final = 1.0
PIECE: Final = 2048
"""How much is parsed at once while heads come: few requests fit into it, and those behind them wait unparsed."""
_ONCE: Final = (b"host", b"authorization")
"""Headers of which a second one could mean something else to a proxy in front."""
_IDLE, _HEAD, _BODY, _GONE = range(4)


class TransportLimits(Struct, frozen=True):
    """What a client may cost."""

    head_bytes: int = 64 * 1024
    url_bytes: int = 16 * 1024
    head_seconds: float = 10.0
    body_idle_seconds: float = 20.0
    """How long nothing may come while a body is unfinished."""
    body_seconds: float = 300.0
    """How long a whole body may take."""
    answer_idle_seconds: float = 20.0
    """How long nothing of an answer may leave before the connection is closed."""
    unread_bytes: int = UNREAD_BYTES
    """How many bytes of answers may wait for their readers, over all connections."""
    stalled_seconds: float = 2.0
    """How long nothing may leave before a connection is closed to make room, when there is no room left."""
    connections: int = 16_384


class _Refused(Exception):
    """Raised inside the parser, which stops and reports a bad request."""


class _Lingering:
    """The transport of a connection; it closes when the client has stopped sending, or soon after."""

    __slots__ = (
        "_protocol",
        "get_extra_info",
        "is_closing",
        "pause_reading",
        "real",
        "resume_reading",
        "written",
    )

    def __init__(self, transport: asyncio.Transport, protocol: LimitedProtocol) -> None:
        self.real = transport
        self.written = 0
        self._protocol = protocol
        self.get_extra_info = transport.get_extra_info
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading
        self.is_closing = protocol.is_closing

    def write(self, data: bytes) -> None:
        """Write, and count."""
        self.written += len(data)
        self.real.write(data)

    def close(self) -> None:
        """Close, now or when the client is done."""
        if self._protocol.sending() and not self.real.is_closing():
            self._protocol.linger()
        else:
            self.real.close()


class _Flow(FlowControl):
    """Pauses and resumes a connection; reading is not resumed while a request waits behind another one."""

    def __init__(self, protocol: LimitedProtocol) -> None:
        super().__init__(protocol.transport)
        self._protocol = protocol

    def resume_reading(self) -> None:
        """Read on, unless what was read already has to wait."""
        if not self._protocol.behind:
            super().resume_reading()


class LimitedProtocol(HttpToolsProtocol):
    """HTTP/1.1 for one connection, with limits."""

    limits: ClassVar[TransportLimits] = TransportLimits()
    unread: ClassVar[Unread] = Unread()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.phase = _HEAD
        self._real: asyncio.Transport | None = None
        self._since = self._begun = time.monotonic()
        self._parsed = 0
        """Bytes of the head that the parser has handed over."""
        self._raw = 0
        """Bytes of a head that is not complete."""
        self._begins = 0
        self._asked_first = False
        self._verdict: tuple[int, str, str] | None = None
        self._body_left = 0
        """Bytes of a body of declared length that have not come yet."""
        self._unparsed = memoryview(b"")
        """What came behind requests that wait for their turn."""
        self._running: Any = None
        """The request that is being answered; others may wait behind it."""
        self.owed = 0
        """Bytes of the answer that have not been handed to the transport yet."""
        self._left = 0
        """Bytes that have left, as of the last look."""
        self._moved = self._since

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Let a client in, if there is room."""
        self._real = transport
        super().connection_made(_Lingering(transport, self))  # type: ignore[arg-type]
        self.flow = _Flow(self)
        self._since = self._begun = self._moved = time.monotonic()
        if len(self.connections) > self.limits.connections:
            self._refuse(503, "too many connections; try again soon", "too_many_connections")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the client, and tell the request that is being answered, whatever came behind it."""
        self.phase = _GONE
        self._unparsed = memoryview(b"")
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def is_closing(self) -> bool:
        """Whether nothing more may be written."""
        return self.phase == _GONE or self._real is None or self._real.is_closing()

    def sending(self) -> bool:
        """Whether the client is in the middle of a request."""
        return self.phase == _BODY or (self.phase == _HEAD and bool(self._raw or self._parsed))

    def linger(self) -> None:
        """End the answer now and the connection when the client has read it."""
        assert self._real is not None
        self.phase = _GONE
        self._unset_keepalive_if_required()
        self.flow.resume_reading()
        if self._real.can_write_eof():
            self._real.write_eof()
        self.loop.call_later(LINGER_SECONDS, self._real.close)

    # Incoming bytes

    @property
    def behind(self) -> bool:
        """Whether something waits behind the request that is being answered."""
        return bool(self.pipeline or self._unparsed)

    def data_received(self, data: bytes) -> None:
        """Parse what came, unless it has to wait."""
        if self.phase == _GONE:
            return
        if self.behind:
            self._unparsed = memoryview(bytes(self._unparsed) + data)
            self.flow.pause_reading()
        else:
            self._parse_all(memoryview(data))

    def _parse_all(self, data: memoryview) -> None:
        """Parse what came as far as it is the turn of its requests."""
        at = 0
        while at < len(data) and self.phase != _GONE:
            if self.pipeline:
                self._unparsed = data[at:]
                self.flow.pause_reading()
                return
            size = max(PIECE, self._body_left) if self.phase == _BODY else PIECE
            self._parse(data[at : at + size])
            at += size

    def _parse(self, data: memoryview) -> None:
        """Parse a piece, and hold it to the limits."""
        before = self.phase
        self._begins = 0
        self._since = time.monotonic() if before == _BODY else self._since
        super().data_received(data)  # type: ignore[arg-type] # the parser takes any buffer
        if self.phase == _HEAD:
            # A head that began behind other bytes of this piece is counted from the next piece on.
            first = self._begins == 1 and (before == _IDLE or self.cycle is None)
            self._raw = self._raw + len(data) if first or not self._begins else 0
            if self._raw > self.limits.head_bytes:
                self._refuse(431, "the head of the request is too large", "headers_too_large")
        elif self.phase == _IDLE and self.timeout_keep_alive_task is None:
            self._wait_for_next()

    def _latest(self) -> Any:
        """Return the request that came last, or none."""
        return self.cycle

    def _wait_for_next(self) -> None:
        """Let the clock of an idle connection run: bytes that began no request have stopped it."""
        cycle = self._latest()
        if cycle is not None and cycle.response_complete and not self.is_closing():
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_message_begin(self) -> None:
        """Begin a head; the clock of a first one runs since the connection was made."""
        super().on_message_begin()
        self.scope[CONNECTION] = self  # type: ignore[typeddict-unknown-key]
        self._body_left = 0
        if self.phase != _HEAD or self._parsed:
            self._since = time.monotonic()
        self.phase = _HEAD
        self._begins += 1
        self._parsed = self._raw = 0

    def on_url(self, url: bytes) -> None:
        """Take a piece of the URL."""
        super().on_url(url)
        self._parsed += len(url)
        if len(self.url) > self.limits.url_bytes:
            self._stop(414, "the URL is too long", "uri_too_long")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; trailers, which come behind the body, are none, and are dropped."""
        if self.phase == _HEAD:
            super().on_header(name, value)
        self._parsed += len(name) + len(value) + 4
        if self._parsed > self.limits.head_bytes:
            self._stop(431, "the head of the request is too large", "headers_too_large")

    def on_headers_complete(self) -> None:
        """Begin the body."""
        self._check_head()
        self.phase = _BODY
        self._since = self._begun = time.monotonic()
        self._asked_first = self.expect_100_continue
        super().on_headers_complete()

    def _check_head(self) -> None:
        """Refuse what two readers could understand in two ways."""
        names = [name for name, _ in self.headers]
        older = self.parser.get_http_version() == "1.0"
        for name in _ONCE:
            if names.count(name) > 1:
                self._stop(400, f"more than one {name.decode().title()} header", "bad_request")
        if b"transfer-encoding" in names:
            if older:
                self._stop(400, "HTTP/1.0 has no Transfer-Encoding", "bad_request")
            codings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
            if codings != [b"chunked"]:
                self._stop(400, "send the body as it is, or chunked", "bad_request")
        length = next((value for name, value in self.headers if name == b"content-length"), b"")
        self._body_left = int(length) if length.isdigit() else 0

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._body_left = max(0, self._body_left - len(body))
        super().on_body(body)

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def on_message_complete(self) -> None:
        """End the request: from here on it is our turn."""
        if self.phase != _GONE:
            self.phase = _IDLE
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request; a body that was announced and never asked for may not come at all."""
        super().on_response_complete()
        if self._unparsed and not self.pipeline and not self.is_closing():
            waiting, self._unparsed = self._unparsed, memoryview(b"")
            self._parse_all(waiting)
            self.flow.resume_reading()
        if self._asked_first and self.phase == _BODY and not self.is_closing():
            self.linger()

    # Refusals

    def _stop(self, status: int, text: str, code: str) -> None:
        self._verdict = (status, text, code)
        raise _Refused

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be parsed, or what the limits forbid."""
        self._refuse(*(self._verdict or (400, msg, "bad_request")))

    def _refuse(self, status: int, text: str, code: str) -> None:
        """Answer below HTTP and end the connection; an answer that is due to an earlier request comes first."""
        if self.is_closing():
            return
        if self.pipeline:
            self.linger()
            return
        cycle = self._latest()
        if cycle is not None and not cycle.response_complete:
            cycle.keep_alive = False
            if cycle.response_started or not cycle.more_body:
                self.phase = _GONE
                return
            cycle.disconnected = True
            cycle.message_event.set()
        error = HttpError(status, text, code, kind=code, retryable=status in {408, 503})
        request_id = new_uuid()
        body = encode(error.body(request_id))
        lines = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            "content-type: application/json",
            f"content-length: {len(body)}",
            f"x-request-id: {request_id}",
            *(f"{name}: {value}" for name, value in error.all_headers()),
            "connection: close",
        ]
        self.transport.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        self.linger()

    # Outgoing bytes

    @property
    def waiting(self) -> int:
        """Bytes of answers that this client has not taken."""
        return self.owed + self._buffered()

    def _buffered(self) -> int:
        return 0 if self._real is None else self._real.get_write_buffer_size()

    @property
    def lost(self) -> bool:
        """Whether nothing more can leave."""
        return self._real is None or self._real.is_closing()

    def stalled(self, now: float) -> float:
        """Say for how long nothing has left, although something waits; looking is what measures it."""
        left = self.transport.written - self._buffered()  # type: ignore[attr-defined]
        if left != self._left or not self._buffered():
            self._left, self._moved = left, now
        return now - self._moved

    def cut(self) -> None:
        """Close the connection with what it has not taken."""
        assert self._real is not None
        self._real.abort()

    async def flushed(self) -> None:
        """Wait until everything that was written has left."""
        if self._real is None or self._real.is_closing():
            return
        self._real.set_write_buffer_limits(high=0)  # it pauses while anything waits
        await self.flow.drain()
        if not self._real.is_closing():  # a reader that has left has no buffer any more
            self._real.set_write_buffer_limits()

    def look(self, now: float) -> None:
        """Refuse a client that takes too long, and leave one that does not read."""
        if self.stalled(now) > self.limits.answer_idle_seconds:
            self.cut()
            return
        waited = now - self._since
        if self.phase == _HEAD and waited > self.limits.head_seconds:
            self._refuse(408, "the head of the request did not come in time", "request_timeout")
        elif self.phase == _BODY and not self.flow.read_paused:
            if waited > self.limits.body_idle_seconds or now - self._begun > self.limits.body_seconds:
                self._refuse(408, "the body of the request did not come in time", "request_timeout")
        elif self.phase == _BODY:  # we are the slow ones
            self._since = now


def protocol_with(limits: TransportLimits, unread: Unread) -> type[LimitedProtocol]:
    """Make the protocol class for some limits."""
    unread.most = limits.unread_bytes
    return type("Protocol", (LimitedProtocol,), {"limits": limits, "unread": unread})


async def sweep(connections: set[Any]) -> None:
    """Look at every connection once a second, for ever: cheaper than timers for each request."""
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        now = time.monotonic()
        ours = [each for each in connections if isinstance(each, LimitedProtocol)]
        for connection in ours:
            connection.look(now)
        _make_room(ours, now)


def _make_room(connections: list[LimitedProtocol], now: float) -> None:
    """Close who has not read for a while when too much waits to be read, those who let most wait first."""
    if not connections:
        return
    unread, patience = connections[0].unread, connections[0].limits.stalled_seconds
    waiting = sum(connection.waiting for connection in connections)
    unread.full = waiting > unread.most or (unread.full and waiting > unread.most // 2)
    if not unread.full:
        return
    stalled = [connection for connection in connections if connection.stalled(now) > patience]
    for connection in sorted(stalled, key=lambda each: each.waiting, reverse=True):
        if waiting <= unread.most // 2:
            return
        waiting -= connection.waiting
        connection.cut()
