"""The layer through which a lab observes handlers."""

from __future__ import annotations

from typing import Any

from flowfabric.testing.observed_store import ChangeSignal
from flowfabric.worker.context.hooks import CONTEXT_HOOKS, ContextHooks
from flowfabric.worker.layers.base import HandlerCall, Layer


class RunningHandlers(Layer):
    """Records which handlers of a worker run, and installs the hooks of their contexts."""

    def __init__(self, changes: ChangeSignal, hooks: ContextHooks) -> None:
        self._changes = changes
        self._hooks = hooks
        self.kinds: dict[str, str] = {}
        """The kinds of the running handlers, by execution."""

    async def handle(self, kind: str, execution_id: str, run: HandlerCall) -> Any:
        """Record that a handler runs while it does."""
        self.kinds[execution_id] = kind
        self._changes.notify()
        outer = CONTEXT_HOOKS.set(self._hooks)
        try:
            return await run()
        finally:
            CONTEXT_HOOKS.reset(outer)
            del self.kinds[execution_id]
            self._changes.notify()
