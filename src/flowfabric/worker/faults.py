"""What ends a handler besides returning: what it raises on purpose, and what is raised into it.

What the worker raises into a handler is a `BaseException`, so that `except Exception` in user code does not swallow
it; those that interrupt are also `asyncio.CancelledError`, so that libraries clean up as they do when cancelled.
"""

from __future__ import annotations

import asyncio
import builtins
from typing import Final

from flowfabric.codecs import Duration, millis
from flowfabric.model.errors import Conflict, FlowFabricError, ResourceExhausted

RETRY: Final = "retry"
"""The category of `Retry`."""


class Retry(Exception):
    """Raise it to end this attempt and be tried again, as far as the retry policy allows.

    ::

        raise Retry("the mail server is busy", after="30s")
    """

    def __init__(self, reason: str = "retry", *, after: Duration | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        """What is kept as the reason of the failure."""
        self.after_ms = None if after is None else millis(after, "after")
        """How long to wait; none: as the backoff of the task says."""


class Permanent(Exception):
    """Raise it to fail for good, whatever the retry policy allows: `raise Permanent("no such customer")`."""

    def __init__(self, reason: str = "permanent failure") -> None:
        super().__init__(reason)
        self.reason = reason
        """What is kept as the reason of the failure."""


class WaitTimeout(TimeoutError):
    """Nobody answered in time: raised by `Context.wait_for_signal` with a `timeout`."""


class StepTimeout(TimeoutError):
    """A step took longer than its `timeout`: raised by a step of `Context.options` when no try is left."""


class StepMismatch(Exception):
    """The handler asks for its steps in another order than the one in which they are stored."""

    def __init__(self, stored: tuple[str, ...], asked: tuple[str, ...]) -> None:
        self.stored = stored
        """The names of the steps in the order in which they were stored."""
        self.asked = asked
        """The names that the handler has asked for now, in its order."""
        super().__init__(
            f"step {len(asked)} of this run is stored as {stored[len(asked) - 1]!r}, and the handler now asks for "
            f"{asked[-1]!r}. Stored: {', '.join(stored)}. Asked: {', '.join(asked)}. "
            "Running work keeps its order of steps: give the changed function a new version "
            "(`@app.task(version=2)`), or replay the run from the step before."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.stored, self.asked)


class StepResultMismatch(Exception):
    """The stored result of a step is not of the type that its function returns now."""

    def __init__(self, name: str, fault: str) -> None:
        self.name = name
        self.fault = fault
        super().__init__(
            f"the stored result of step {name!r} does not fit what its function returns now: {fault}. Give the changed "
            "function a new version (`@app.task(version=2)`), or the step another name after those that are done."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.name, self.fault)


class ProcessCrashed(Exception):
    """The process of a handler ended without an answer."""


class RemoteError(Exception):
    """What a handler raised in its process; the text is its traceback there."""


class InvalidArguments(Exception):
    """The input does not fit the parameters of the handler, which was not run."""


class Interrupted(asyncio.CancelledError):
    """Base of what the worker raises into a handler that must stop now."""


class LeaseLost(Interrupted):
    """The worker no longer holds this task: somebody else may run it already. Clean up, and change nothing more.

    It is a kind of `asyncio.CancelledError`, so `except Exception` does not catch it.
    """


class DeadlinePassed(Interrupted):
    """The time of this attempt, of the whole run, or of a step in a thread is over; the engine decides what follows."""


class Stopping(Interrupted):
    """The worker stops, and the grace is over: the task goes back to be run by others."""


class HandlerSuspended(BaseException):
    """Unwinds a handler whose lease was given back; it is run again from its top when its wait is over."""


class TaskConsumed(Conflict):
    """The task was ended or given back by an earlier call."""

    code = "task_consumed"
    message = "the task was ended or given back already; claim another one"


class WorkerAtCapacity(ResourceExhausted):
    """Every permit of the worker is in use."""

    code = "worker_at_capacity"
    message = "every permit is in use; end a task first, or raise the concurrency"


def is_loss(error: FlowFabricError) -> bool:
    """Whether a refusal says that the lease is gone for good."""
    return error.code in _LOSSES


_LOSSES = frozenset({
    "stale_lease", "lease_expired", "lease_revoked", "execution_not_active", "execution_not_found",
    "stale_owner_cannot_append",
})  # fmt: skip


def names_of(kind: type[BaseException]) -> tuple[str, ...]:
    """Name a kind of exception as policies do: with its module, and alone where no builtin has the same name."""
    module, name = kind.__module__, kind.__qualname__
    if module == "builtins":
        return (name,)
    full = f"{module}.{name}"
    return (full,) if hasattr(builtins, name) else (full, name)


def category_name(kind: type[BaseException]) -> str:
    """Write a kind of exception into a policy. The main module has another name elsewhere, so it has none."""
    return names_of(kind)[-1 if kind.__module__ == "__main__" else 0]
