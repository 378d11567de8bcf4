"""Permits for costly calls: taken without waiting, or refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flowfabric.server.errors import HttpError


class Permits:
    """So many calls of one kind at a time, and no queue."""

    def __init__(self, pool: str, most: int) -> None:
        self._pool = pool
        self.most = most
        self.taken = 0

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold a permit; refuse the call when none is left."""
        if self.taken >= self.most:
            raise HttpError(
                429, f"too many concurrent {self._pool} calls (server max: {self.most}); retry with backoff",
                "resource_exhausted", kind="resource_exhausted", retryable=True,
            )  # fmt: skip
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1
