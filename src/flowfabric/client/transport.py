"""One pool of connections to one server: requests with time limits, and repeats where they are safe.

A repeat is tried when the server says that it did nothing and may be asked again (429, or 502 to 504 with a body that
says so), or when nothing was sent. When an answer is lost, what was asked may have been done: then only what the server
recognises as a repeat is sent again.
"""

from __future__ import annotations

import asyncio
import io
import logging
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from msgspec import Struct

from flowfabric.client.address import Address
from flowfabric.client.failures import failure
from flowfabric.model.errors import FlowFabricError, NotOffered, StoreClosed, Unreachable
from flowfabric.storage.extras import install_command

if TYPE_CHECKING:
    import aiohttp

REPEATED: Final = frozenset({429, 502, 503, 504})
"""Answers that come before anything was decided, if their body says that the call may be repeated."""
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
JSON: Final = "application/json"

log = logging.getLogger("flowfabric.client")


class Limits(Struct, frozen=True, kw_only=True):
    """How patient a client is, and how much it does at once."""

    connections: int = 64
    """Most connections for requests; what needs one more waits. Wake-ups have one of their own."""
    connect_seconds: float = 5.0
    request_seconds: float = 30.0
    """For one try, from getting a connection to the last byte; a long wait is added to it."""
    tries: int = 5
    first_pause_seconds: float = 0.1
    longest_pause_seconds: float = 5.0
    longest_retry_after_seconds: float = 60.0
    """A server that asks for a longer pause is not asked again; the caller gets its error."""
    silence_seconds: float = 45.0
    """After which a live stream without any sign of life counts as broken; servers send one every 15 s."""


class HttpRequest(Struct, frozen=True, kw_only=True):
    """One call: what is sent, and whether the server knows a repeat of it."""

    method: str
    path: str
    """Encoded."""
    body: bytes | None = None
    query: Mapping[str, str] = {}
    accept: str = JSON
    actor: str = ""
    """On whose behalf; the server believes administrators only."""
    safe: bool = False
    """Whether it may be sent again after its answer was lost."""
    wait_seconds: float = 0.0
    """How long the server was asked to wait."""


class HttpReply(Struct, frozen=True):
    """What came back from a call that succeeded."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport:
    """Sends requests to one server."""

    def __init__(self, address: Address, limits: Limits, chance: Callable[[], float] = random.random) -> None:
        self._address = address
        self.limits = limits
        self._chance = chance
        self._session: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"Transport({self._address.base!r})"

    def session(self) -> aiohttp.ClientSession:
        """Return the session, opened in the loop of its first use."""
        if self._closed:
            raise StoreClosed("the client is closed; open it again")
        if self._session is None:
            self._session = _open(self._address, self.limits, self.limits.connections)
        return self._session

    def streams(self) -> aiohttp.ClientSession:
        """Return the session of streams without end, which take no connection from requests."""
        if self._closed:
            raise StoreClosed("the client is closed; open it again")
        if self._streams is None:
            self._streams = _open(self._address, self.limits, 0)
        return self._streams

    def url(self, request: HttpRequest) -> Any:
        """Return where a request goes; the path is sent as it is."""
        from yarl import URL  # noqa: PLC0415 - comes with aiohttp, which is optional

        url = URL(self._address.base + request.path, encoded=True)
        return url.with_query(dict(request.query)) if request.query else url

    async def send(self, request: HttpRequest) -> HttpReply:
        """Send a request, and again where that is safe and the error says that it may help."""
        for turn in range(1, self.limits.tries):
            try:
                return await self._once(request)
            except _Failed as failed:
                if not failed.again:
                    raise failed.error from failed.__cause__
                log.info("%s %s: %s; trying again", request.method, request.path, failed.error.code)
                await asyncio.sleep(self._pause(turn, failed.retry_after))
        try:
            return await self._once(request)
        except _Failed as failed:
            raise failed.error from failed.__cause__

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        sessions = (self._session, self._streams)
        self._session = self._streams = None
        for session in sessions:
            if session is not None:
                await session.close()

    def _pause(self, turn: int, retry_after: float) -> float:
        """Twice as long each time, spread by chance so that clients do not come back together."""
        longest = min(self.limits.first_pause_seconds * 2 ** (turn - 1), self.limits.longest_pause_seconds)
        pause: float = retry_after + longest * (0.5 + self._chance() / 2)
        return pause

    async def _once(self, request: HttpRequest) -> HttpReply:
        import aiohttp  # noqa: PLC0415 - optional

        session = self.session()
        seconds = self.limits.request_seconds + request.wait_seconds
        try:
            async with asyncio.timeout(seconds):
                reply = await self._exchange(session, request)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise _Failed(_unreachable(error), again=True) from error  # nothing was sent
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _Failed(_unreachable(error), again=request.safe) from error
        if reply.status < 400:
            return reply
        refusal = failure(reply.status, reply.body)
        pause = _retry_after(reply)
        again = reply.status in REPEATED and refusal.retryable
        again = again and pause <= self.limits.longest_retry_after_seconds
        if reply.status in {502, 504}:  # of somebody in between: what was asked may have been done
            again = again and request.safe
        raise _Failed(refusal, again=again, retry_after=pause)

    async def _exchange(self, session: aiohttp.ClientSession, request: HttpRequest) -> HttpReply:
        headers = {"Accept": request.accept}
        data = io.BytesIO(request.body) if request.body is not None else None
        if request.body is not None:
            headers["Content-Type"] = JSON
        if request.actor:
            headers["X-FlowFabric-Actor"] = quote(request.actor, safe="")
        async with session.request(
            request.method, self.url(request), data=data, headers=headers, allow_redirects=False
        ) as response:
            body = await response.content.read(MAX_ANSWER_BYTES + 1)
            while not response.content.at_eof() and len(body) <= MAX_ANSWER_BYTES:
                body += await response.content.read(MAX_ANSWER_BYTES + 1 - len(body))
            if len(body) > MAX_ANSWER_BYTES:
                response.close()
                raise Unreachable(f"the answer is larger than {MAX_ANSWER_BYTES} bytes; ask for less at once")
            return HttpReply(response.status, response.headers, body)


class _Failed(Exception):
    """One try that failed: with what, and whether another may follow."""

    def __init__(self, error: FlowFabricError, *, again: bool, retry_after: float = 0.0) -> None:
        super().__init__(error.code)
        self.error = error
        self.again = again
        self.retry_after = retry_after


def _retry_after(reply: HttpReply) -> float:
    text = reply.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else 0.0


def _unreachable(error: BaseException) -> Unreachable:
    """Say what happened, without the URL: it may hold what is nobody's business."""
    what = "the time was over" if isinstance(error, TimeoutError) else type(error).__name__
    return Unreachable(f"the server did not answer ({what}); what was asked may have been done")


def _open(address: Address, limits: Limits, connections: int) -> aiohttp.ClientSession:
    try:
        import aiohttp  # noqa: PLC0415 - optional
    except ImportError as error:
        raise NotOffered(f"http:// needs aiohttp: {install_command('http')}", field="url") from error
    headers = {"Authorization": f"Bearer {address.token}"} if address.token else {}
    return aiohttp.ClientSession(
        headers=headers,
        connector=aiohttp.TCPConnector(limit=connections),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=limits.connect_seconds),
        auto_decompress=True,
        trust_env=False,
    )
