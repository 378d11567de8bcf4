"""Random UUIDs in quantity: the operating system is asked for many at a time."""

from __future__ import annotations

import os
import threading
from typing import Final

_MANY: Final = 256


class _Pool(threading.local):
    """Random digits of one thread; a fork starts with none, so that two processes never share them."""

    digits = ""
    process = 0


_pool: Final = _Pool()


def new_uuid() -> str:
    """Return a random UUID (version 4) as text."""
    pool = _pool
    if not pool.digits or pool.process != os.getpid():
        pool.digits = os.urandom(16 * _MANY).hex()
        pool.process = os.getpid()
    d, pool.digits = pool.digits[:32], pool.digits[32:]
    variant = "89ab"[int(d[16], 16) & 3]
    return f"{d[:8]}-{d[8:12]}-4{d[13:16]}-{variant}{d[17:20]}-{d[20:]}"
