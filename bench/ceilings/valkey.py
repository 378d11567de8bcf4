"""The ceiling on Valkey: three small functions, called over the same connection as the engine's."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from flowfabric.storage.minting import new_uuid
from flowfabric.storage.valkey.connection.client import Client

LIBRARY = Path(__file__).with_suffix(".lua")
Job = tuple[bytes, int, bytes, bytes]
"""Id, epoch, attempt, input."""


class ValkeyCeiling:
    """A job queue on a Valkey server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @classmethod
    async def open(cls, url: str) -> Self:
        """Connect, and load the functions."""
        client = Client(url)
        await client.call("FUNCTION", "LOAD", "REPLACE", LIBRARY.read_bytes())
        return cls(client)

    async def submit(self, body: bytes) -> None:
        """Add one job."""
        assert await self._call("bare_submit", f"{{fp:0}}:{new_uuid()}", body) == 1

    async def claim(self, worker: str, limit: int) -> Sequence[Job]:
        """Take the oldest."""
        jobs: Sequence[Job] = await self._call("bare_claim", worker, limit, new_uuid(), new_uuid())
        return jobs

    async def finish(self, tasks: Sequence[Job]) -> None:
        """End jobs with a result."""
        if len(tasks) == 1:
            ((job, epoch, attempt, _),) = tasks
            assert await self._call("bare_finish", job, epoch, attempt, b"{}") == 1
            return
        await asyncio.gather(*(self.finish([task]) for task in tasks))

    async def _call(self, function: str, *arguments: Any) -> Any:
        return await self._client.call("FCALL", function, 0, *arguments)

    async def close(self) -> None:
        """Close the connection."""
        self._client.close()
