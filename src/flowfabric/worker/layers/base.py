"""The base class of layers, the middleware of workers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from flowfabric.model.errors import FlowFabricError

HandlerCall = Callable[[], Awaitable[Any]]
"""Runs a handler, with the layers inside this one, and returns its result."""


class Layer:
    """Middleware around the store calls and handlers of a worker. Override what you need.

    ::

        class Slow(Layer):
            def after(self, method, seconds, error):
                if seconds > 1:
                    print(method, "took", seconds)

    Pass layers to `FlowFabric(layers=[…])` or `app.worker(layers=[…])`. `method` is the name of the command in snake
    case: `claim`, `complete`, `put_step`, `describe`. Leases are renewed from a separate thread, so a layer must
    tolerate calls from two threads at once.
    """

    def before(self, method: str) -> None:
        """Inspect a store call before it is made; raise a `FlowFabricError` to refuse it."""

    def after(self, method: str, seconds: float, error: FlowFabricError | None) -> None:
        """Inspect a store call after it was made or refused: its duration, and the error if it failed."""

    async def handle(self, kind: str, execution_id: str, run: HandlerCall) -> Any:  # noqa: ARG002
        """Run a handler. Override it to act before and after every handler, and return what `run()` returns."""
        return await run()
