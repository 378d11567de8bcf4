"""Durations as people write them: `30`, `0.5`, `"500ms"`, `"30s"`, `"2m"`, `"1h30m"`, `"1d"`, or a `timedelta`."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Final

from flowfabric.model.errors import invalid
from flowfabric.model.limits import MAX_INT

Duration = int | float | timedelta | str
"""Plain numbers are seconds."""

_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])", re.ASCII)
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
_PLAIN: Final = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_HELP: Final = "write seconds as a number, a timedelta, or text such as 500ms, 30s, 2m, 1h30m, 1d"


def millis(value: Duration, field: str = "duration") -> int:
    """Return a duration in whole milliseconds; an error names the field."""
    found = _text(value.strip(), field) if isinstance(value, str) else _number(value, field)
    if not math.isfinite(found) or not 0 <= found <= MAX_INT:
        raise invalid(field, f"{value!r} is out of range: a duration is not negative, and finite")
    return round(found)


def seconds(value: Duration, field: str = "duration") -> float:
    """Return a duration in seconds; an error names the field."""
    return millis(value, field) / 1_000


def _number(value: float | timedelta, field: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds() * 1_000
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise invalid(field, f"{value!r} is no duration: {_HELP}")
    return value * 1_000


def _text(value: str, field: str) -> float:
    if _WHOLE.fullmatch(value) is None:
        if _PLAIN.fullmatch(value):
            raise invalid(
                field, f"{value!r} has no unit: write {value}s, or {value}ms, {value}m, {value}h, {value}d"
            )
        raise invalid(field, f"{value!r} is no duration: {_HELP}")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(value))
