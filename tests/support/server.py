"""A real server in the process of the test, on a free loopback port, and a client that speaks to it."""

from __future__ import annotations

import asyncio
import io
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp
from yarl import URL

from flowfabric.server.http.listener import serve
from flowfabric.server.server import Server
from flowfabric.storage.base import Upkeep


class Reply(NamedTuple):
    """What came back; `json` is none when the body is not JSON."""

    status: int
    json: Any
    headers: dict[str, str]
    raw: bytes = b""


class Api:
    """Speaks to one server; paths are sent as they are written, headers are lower case."""

    def __init__(self, server: Server, store: Upkeep, base: str, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.store = store
        self.base = base
        self.session = session

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        data: bytes | None = None,
        headers: dict[str, str] | None = None,
        **query: Any,
    ) -> Reply:
        """Send one request; `body` goes as JSON, `data` as it is with no content type of its own."""
        sent = dict(headers or {})
        if body is not None:
            data = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        url = URL(self.base + path, encoded=True)
        if query:
            url = url.update_query([(k, str(v)) for k, vs in query.items() for v in _each(vs)])
        async with self.session.request(
            method,
            url,
            data=io.BytesIO(data) if data else None,
            headers=sent,
            skip_auto_headers=("Content-Type",),
        ) as response:
            raw = await response.read()
            return Reply(
                response.status, _parse(raw), {k.lower(): v for k, v in response.headers.items()}, raw
            )

    async def get(self, path: str, **query: Any) -> Reply:
        """GET; a list among the parameters repeats its name."""
        return await self.call("GET", path, **query)

    async def post(self, path: str, body: Any = None, **query: Any) -> Reply:
        """POST a JSON body, or none."""
        return await self.call("POST", path, body, **query)

    async def put(self, path: str, body: Any = None, **query: Any) -> Reply:
        """PUT a JSON body."""
        return await self.call("PUT", path, body, **query)

    async def delete(self, path: str, body: Any = None, **query: Any) -> Reply:
        """DELETE."""
        return await self.call("DELETE", path, body, **query)


def _each(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _parse(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None


@asynccontextmanager
async def running(store: Upkeep, *, token: str = "", **options: Any) -> AsyncIterator[Api]:
    """Serve a store; `token` is sent by the client, `options` go to the server."""
    server = Server(store, **options)
    listener = socket.socket(proto=socket.IPPROTO_TCP)  # else asyncio leaves Nagle on: 40 ms a reply
    listener.bind(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    ready = asyncio.Event()
    async with server.engine, aiohttp.ClientSession(headers=headers) as session:
        serving = asyncio.create_task(serve(server, [listener], ready.set))
        await ready.wait()
        try:
            yield Api(server, store, base, session)
        finally:
            await session.close()
            server.stop()
            await serving
            listener.close()
