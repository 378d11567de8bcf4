"""Other origins: which web pages may read what this server says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

ANY: Final = "*"
METRICS: Final = "/metrics"
"""For collectors, never for pages."""
METHODS: Final = "GET,POST,PUT,DELETE"
EXPOSED: Final = "x-request-id,retry-after"
VARY: Final = b"origin, access-control-request-method, access-control-request-headers"
Headers = list[tuple[bytes, bytes]]


class Cors:
    """Stands before the gate: answers preflights, and marks what other origins may read."""

    def __init__(self, app: ASGIApp, origins: tuple[str, ...], *, with_token: bool) -> None:
        self._app = app
        self._origins = frozenset(origin.encode() for origin in origins)
        self._any = ANY in origins
        names = (ANY if self._any else "content-type", "authorization" if with_token else "")
        self._request_headers = ",".join(filter(None, names)).encode()
        self._methods = (ANY if self._any else METHODS).encode()
        self._exposed = (ANY if self._any else EXPOSED).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["method"] == "OPTIONS":
            await self._preflight(scope, send)
        elif self._origins:
            await self._app(scope, receive, _marking(send, self._marks(scope)))
        else:
            await self._app(scope, receive, send)

    def _allowed(self, scope: Scope) -> bytes:
        if scope["path"] == METRICS:
            return b""
        if self._any:
            return ANY.encode()
        origin: bytes = next((value for name, value in scope["headers"] if name == b"origin"), b"")
        return origin if origin in self._origins else b""

    def _marks(self, scope: Scope) -> Headers:
        # The answer depends on the origin even when there is none: a cache in between has to know.
        vary: Headers = [(b"vary", VARY)]
        allowed = self._allowed(scope)
        if not allowed:
            return vary
        return [
            *vary,
            (b"access-control-allow-origin", allowed),
            (b"access-control-expose-headers", self._exposed),
        ]

    async def _preflight(self, scope: Scope, send: Send) -> None:
        headers: Headers = [(b"content-length", b"0")]
        if self._origins:
            headers.append((b"vary", VARY))
        allowed = self._allowed(scope)
        if allowed:
            headers += [
                (b"access-control-allow-origin", allowed),
                (b"access-control-allow-methods", self._methods),
                (b"access-control-allow-headers", self._request_headers),
            ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def _marking(send: Send, marks: Headers) -> Send:
    async def marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *marks]}
        await send(message)

    return marked
