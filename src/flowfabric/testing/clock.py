"""The time of a lab: it stands still until a test moves it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from flowfabric.codecs import Duration, millis

START: Final = datetime(2030, 1, 1, tzinfo=UTC)


class Clock:
    """Moves only when it is told to: `await lab.clock.advance("1d")`."""

    def __init__(self, start: datetime, travel: Callable[[int], Awaitable[None]]) -> None:
        self.ms: int = round(start.timestamp() * 1_000)
        """Milliseconds since 1970."""
        self._travel = travel

    def __call__(self) -> int:
        """Return milliseconds since 1970, as stores ask for them."""
        return self.ms

    @property
    def now(self) -> datetime:
        """The present, in UTC."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self.ms)

    async def advance(self, duration: Duration) -> None:
        """Move on, and stop on the way at everything that falls due: retries, sleeps, timeouts, leases, retention.

        Handlers that become runnable are waited for at each stop; those that run already when it is called are not,
        but their leases are renewed, as by a worker that lives.
        """
        await self._travel(self.ms + millis(duration))
