"""Times as people read them: in sentences of the engine, and on the command line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"))


def span(ms: int) -> str:
    """Write a duration in its largest whole unit: `5s`, `3h`."""
    return next((f"{ms // size}{unit}" for size, unit in _UNITS if ms >= size), f"{max(ms, 0)}ms")


def since(at: int, now: int) -> str:
    """Say how long ago something was, or how long it is until then."""
    if not at:
        return ""
    return f"{span(now - at)} ago" if at <= now else f"in {span(at - now)}"


def moment(at: int, *, to_the_second: bool = False) -> str:
    """Write a time in UTC, to the millisecond; nothing where there is none."""
    if not at:
        return ""
    try:
        day = f"{datetime.fromtimestamp(at // 1_000, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return str(at)  # a delay may reach beyond any calendar
    return f"{day}Z" if to_the_second else f"{day}.{at % 1_000:03d}Z"
