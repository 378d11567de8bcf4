"""Extension points of contexts, for tools that test handlers."""

from __future__ import annotations

from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from flowfabric.worker.steps.policy import StepTimer

R = TypeVar("R")


class ContextHooks:
    """What a test tool may replace in the contexts of a worker. The defaults change nothing."""

    def step_timer(self, execution_id: str) -> StepTimer:  # noqa: ARG002
        """Return the timer of the backoffs and timeouts of steps."""
        return StepTimer()

    async def before_step(self, execution_id: str, name: str) -> None:
        """Act before the function of a step is called; steps with a stored result are not reported."""

    def wrap(self, work: Coroutine[Any, Any, R]) -> Coroutine[Any, Any, R]:
        """Return the coroutine to run for a step, or for a call that a handler makes from a thread."""
        return work


_DEFAULTS: Final = ContextHooks()
CONTEXT_HOOKS: Final[ContextVar[ContextHooks]] = ContextVar("flowfabric_context_hooks", default=_DEFAULTS)
"""The hooks of contexts that are created from here on; a layer sets them in `Layer.handle`."""
