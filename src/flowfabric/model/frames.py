"""Modes of stream frames, and how many best-effort frames a stream keeps.

A stream keeps about twice the frames that arrive in one time to live, by a moving average of their rate.
"""

from __future__ import annotations

import math
from typing import Final, Literal

FrameMode = Literal["durable", "summary", "best_effort"]

FRAME_MODES: Final[tuple[FrameMode, ...]] = ("durable", "summary", "best_effort")

DEFAULT_FLOOR: Final = 64
DEFAULT_CEILING: Final = 16_384
DEFAULT_ALPHA: Final = 0.2


def frame_mode(text: str) -> FrameMode:
    """Read the mode of a frame; empty and unknown ones are durable, so that a newer worker loses nothing here."""
    for mode in FRAME_MODES:
        if text == mode:
            return mode
    return "durable"


def normalise_bounds(floor: int, ceiling: int, alpha: float) -> tuple[int, int, float]:
    """Replace bounds that make no sense by the defaults, and lift a ceiling that is below its floor."""
    floor = floor if floor > 0 else DEFAULT_FLOOR
    ceiling = ceiling if ceiling > 0 else DEFAULT_CEILING
    return floor, max(floor, ceiling), alpha if 0 < alpha <= 1 else DEFAULT_ALPHA


def next_rate(rate: float, last_ms: int, now: int, ttl_ms: int, floor: int, alpha: float) -> float:
    """Give the frames per second after one more; `last_ms` 0 means that it is the first."""
    if last_ms == 0:
        return floor / (_seconds(ttl_ms) * 2)
    return alpha * (1000 / max(now - last_ms, 1)) + (1 - alpha) * rate


def keep_entries(rate: float, ttl_ms: int, floor: int, ceiling: int) -> int:
    """How many frames to keep at this rate."""
    return min(max(math.ceil(rate * _seconds(ttl_ms) * 2), floor), ceiling)


def _seconds(ttl_ms: int) -> float:
    return max(ttl_ms, 1) / 1000
