"""Random UUIDs in quantity: the operating system is asked for many at a time."""

from __future__ import annotations

import os
import threading
from typing import Final

_MANY: Final = 64


class _Pool(threading.local):
    """Random UUIDs of one thread; a fork starts with none, so that two processes never share them."""

    ready: tuple[str, ...] | list[str] = ()
    process = 0


_pool: Final = _Pool()


def new_uuid() -> str:
    """Return a random UUID (version 4) as text."""
    pool = _pool
    if not pool.ready or pool.process != os.getpid():
        digits = os.urandom(16 * _MANY).hex()
        pool.ready = [_uuid(digits[start : start + 32]) for start in range(0, 32 * _MANY, 32)]
        pool.process = os.getpid()
    assert isinstance(pool.ready, list)
    return pool.ready.pop()


def _uuid(d: str) -> str:
    variant = "89ab"[int(d[16], 16) & 3]
    return f"{d[:8]}-{d[8:12]}-4{d[13:16]}-{variant}{d[17:20]}-{d[20:]}"
