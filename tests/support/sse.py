"""Reading server-sent events as a browser would."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp
from yarl import URL

from support.server import Api


class Message(NamedTuple):
    """One message."""

    event: str
    data: Any
    id: str


class Feed:
    """An open stream of messages."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.comments = 0
        self.last_id = ""

    async def next(self) -> Message | None:
        """Return the next message; none at the end."""
        event, data, place = "message", "", ""
        while line := await self.response.content.readline():
            text = line.decode().rstrip("\n")
            if not text:
                if data:
                    self.last_id = place or self.last_id
                    return Message(event, json.loads(data), place)
                continue
            name, _, value = text.partition(": ")
            if not name:
                self.comments += 1
            elif name == "event":
                event = value
            elif name == "data":
                data = value
            elif name == "id":
                place = value
            elif text.startswith(":"):
                self.comments += 1
        return None

    async def take(self, count: int, seconds: float = 10) -> list[Message]:
        """Return exactly so many messages."""
        found: list[Message] = []
        async with asyncio.timeout(seconds):
            while len(found) < count:
                message = await self.next()
                assert message is not None, found
                found.append(message)
        return found

    async def rest(self, seconds: float = 20) -> list[Message]:
        """Return everything until the server ends the stream."""
        found: list[Message] = []
        async with asyncio.timeout(seconds):
            while (message := await self.next()) is not None:
                found.append(message)
        return found


@asynccontextmanager
async def listen(api: Api, path: str, last_id: str = "", **query: str) -> AsyncIterator[Feed]:
    """Open a stream of messages."""
    headers = {"Last-Event-ID": last_id} if last_id else {}
    url = URL(api.base + path, encoded=True).update_query(query)
    async with api.session.get(url, headers=headers) as response:
        assert response.status == 200, await response.text()
        assert response.headers["content-type"] == "text/event-stream"
        yield Feed(response)
