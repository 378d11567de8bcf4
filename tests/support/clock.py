"""A clock that moves only when a test says so."""

from __future__ import annotations

START = 1_700_000_000_000


class ManualClock:
    """Milliseconds under the test's control."""

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, ms: int) -> int:
        """Move time on (or back) and return it."""
        self.now += ms
        return self.now
