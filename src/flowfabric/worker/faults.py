"""Exceptions of handlers: those that they raise on purpose, and those that the worker raises into them.

The worker raises a `BaseException` into a handler, so that `except Exception` in user code does not swallow it.
Interruptions are `asyncio.CancelledError`s, so that libraries clean up as they do when they are cancelled.
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
    """Raise it to end this attempt and retry, if the retry policy allows it.

    ::

        raise Retry("the mail server is busy", after="30s")
    """

    def __init__(self, reason: str = "retry", *, after: Duration | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        """The reason of the failure, which is stored."""
        self.after_ms = None if after is None else millis(after, "after")
        """How long to wait before the retry; None for the backoff of the task."""


class Permanent(Exception):
    """Raise it to fail without a retry, whatever the retry policy: `raise Permanent("no such customer")`."""

    def __init__(self, reason: str = "permanent failure") -> None:
        super().__init__(reason)
        self.reason = reason
        """The reason of the failure, which is stored."""


class WaitTimeout(TimeoutError):
    """No signal arrived in time: raised by `Context.wait_for_signal` with a `timeout`."""


class StepTimeout(TimeoutError):
    """A step took longer than its `timeout`: raised by a step of `Context.options` when no try is left."""


class StepMismatch(Exception):
    """The handler calls its steps in another order than the stored one."""

    def __init__(self, stored: tuple[str, ...], asked: tuple[str, ...]) -> None:
        self.stored = stored
        """The names of the steps in the order in which they were stored."""
        self.asked = asked
        """The names of the steps that the handler has called now, in its order."""
        super().__init__(
            f"step {len(asked)} of this run is stored as {stored[len(asked) - 1]!r}, and the handler now asks for "
            f"{asked[-1]!r}. Stored: {', '.join(stored)}. Asked: {', '.join(asked)}. "
            "Running work keeps its order of steps: give the changed function a new version "
            "(`@app.task(version=2)`), or replay the run from the step before."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.stored, self.asked)


class StepResultMismatch(Exception):
    """The stored result of a step does not have the type that its function returns now."""

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
    """The process of a handler ended without returning."""


class RemoteError(Exception):
    """The cause of an exception that a handler raised in another process; the text is its traceback there."""


class InvalidArguments(Exception):
    """The input does not fit the parameters of the handler, so the handler was not called."""


class Interrupted(asyncio.CancelledError):
    """Base of the exceptions that the worker raises into a handler that must stop now."""


class LeaseLost(Interrupted):
    """The worker no longer holds this task, and another may run it already. Clean up, and change nothing more.

    It is an `asyncio.CancelledError`, so `except Exception` does not catch it.
    """


class DeadlinePassed(Interrupted):
    """The attempt, the whole run, or a step in a thread has timed out. The engine decides what follows."""


class Stopping(Interrupted):
    """The worker stops, and the grace period is over: the task is given back to other workers."""


class HandlerSuspended(BaseException):
    """Unwinds a handler that has given its lease back. It runs again from its beginning when its wait is over."""


class TaskConsumed(Conflict):
    """The task was ended or given back by an earlier call."""

    code = "task_consumed"
    message = "the task was ended or given back already; claim another one"


class WorkerAtCapacity(ResourceExhausted):
    """Every permit of the worker is in use."""

    code = "worker_at_capacity"
    message = "every permit is in use; end a task first, or raise the concurrency"


def is_loss(error: FlowFabricError) -> bool:
    """Return True if a refusal means that the lease is gone for good."""
    return error.code in _LOSSES


_LOSSES = frozenset(
    {
        "stale_lease",
        "lease_expired",
        "lease_revoked",
        "execution_not_active",
        "execution_not_found",
        "stale_owner_cannot_append",
    }
)


def names_of(kind: type[BaseException]) -> tuple[str, ...]:
    """Return the names of an exception class in policies: with its module, and without, unless a builtin has it."""
    module, name = kind.__module__, kind.__qualname__
    if module == "builtins":
        return (name,)
    full = f"{module}.{name}"
    return (full,) if hasattr(builtins, name) else (full, name)


def category_name(kind: type[BaseException]) -> str:
    """Return the name under which a policy stores an exception class; without `__main__`, which differs elsewhere."""
    return names_of(kind)[-1 if kind.__module__ == "__main__" else 0]
