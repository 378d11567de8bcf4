"""Make random UUIDs cheaply: read randomness for many at a time from the operating system."""

from __future__ import annotations

import os
from typing import Final

_MANY: Final = 64
_ready: Final[list[str]] = []
"""Shared by all threads, because `pop` is atomic. A forked process starts without any, so that none is used twice."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ready.clear)


def new_uuid() -> str:
    """Return a random UUID (version 4) as text."""
    try:
        return _ready.pop()
    except IndexError:
        digits = os.urandom(16 * _MANY).hex()
        first, *others = (_uuid(digits[start : start + 32]) for start in range(0, 32 * _MANY, 32))
        _ready.extend(others)
        return first


def _uuid(d: str) -> str:
    variant = "89ab"[int(d[16], 16) & 3]
    return f"{d[:8]}-{d[8:12]}-4{d[13:16]}-{variant}{d[17:20]}-{d[20:]}"
