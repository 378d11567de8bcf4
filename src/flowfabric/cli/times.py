"""Times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_STEPS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"))


def span(ms: int) -> str:
    """Write a duration in its largest whole unit: `5s`, `3h`."""
    for size, unit in _STEPS:
        if ms >= size:
            return f"{ms // size}{unit}"
    return f"{max(ms, 0)}ms"


def since(at: int, now: int) -> str:
    """Say how long ago something was, or how long it is until then."""
    if not at:
        return ""
    return f"{span(now - at)} ago" if at <= now else f"in {span(at - now)}"


def moment(at: int) -> str:
    """Write a time to the millisecond, in UTC."""
    if not at:
        return ""
    return f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M:%S}.{at % 1000:03d}Z"
