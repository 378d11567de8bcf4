"""What the fixture that starts servers is, for signatures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from support.server import Api

Serve = Callable[..., Awaitable[Api]]
