"""The clock of a lab, which a test moves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from flowfabric.codecs import Duration, millis

START: Final = datetime(2030, 1, 1, tzinfo=UTC)


class Clock:
    """A clock that moves only on request: `await lab.clock.advance("1d")`."""

    def __init__(self, start: datetime, travel: Callable[[int], Awaitable[None]]) -> None:
        self.ms: int = round(start.timestamp() * 1_000)
        """Milliseconds since 1970."""
        self._travel = travel

    def __call__(self) -> int:
        """Return milliseconds since 1970, as the clock of a store."""
        return self.ms

    @property
    def now(self) -> datetime:
        """The current time of the lab, in UTC."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self.ms)

    async def advance(self, duration: Duration) -> None:
        """Advance the clock, stopping at everything that falls due: retries, sleeps, timeouts, leases, retention.

        Each stop waits for the handlers that become runnable. Handlers that are running already when this is called are
        not waited for, but their leases are renewed, as by a live worker.
        """
        await self._travel(self.ms + millis(duration))
