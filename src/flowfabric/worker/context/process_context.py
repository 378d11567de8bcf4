"""The context of a handler in a process of its own: what it asks for is done by the worker, through a pipe."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import logging.handlers
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from multiprocessing.connection import Connection
from typing import Any, Final

from flowfabric.codecs import Codec, Duration
from flowfabric.worker.context.context import Context, bound_log
from flowfabric.worker.context.durable_calls import Child
from flowfabric.worker.context.sync_context import SyncContext
from flowfabric.worker.steps.journal import STEPS_AROUND
from flowfabric.worker.steps.policy import StepPolicy, StepTimer
from flowfabric.worker.steps.results import read_result, write_result

_OFFERED: Final = frozenset({
    "approval_link", "create_waitpoint", "emit", "flush", "progress", "sleep", "summary", "wait_for_signal",
})  # fmt: skip
"""What is asked of the context as it is."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the other process knows without asking; it stands in the place of the context on the way there."""

    execution_id: str
    kind: str
    attempt: int
    tags: dict[str, str]
    fence: str
    deadline: datetime | None
    codec: Codec
    level: int
    """Of the log."""

    @classmethod
    def of(cls, context: Context) -> Facts:
        """Collect them."""
        return cls(
            context.execution_id, context.task.execution_kind, context.attempt, context.tags, context.fence,
            context.deadline, context._codec, context.log.getEffectiveLevel(),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Request:
    """Something that is asked of the worker."""

    method: str
    args: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[str, ...] = field(default_factory=STEPS_AROUND.get)
    """The steps inside which the handler asks."""


@dataclass(frozen=True, slots=True)
class FarChild:
    """The handle of a submitted run, as it crosses the pipe."""

    id: str

    def result(self, timeout: Duration | None = None) -> Request:
        """Ask for its result."""
        return Request("child", (self.id, "result", timeout))

    def cancel(self, reason: str = "") -> Request:
        """Ask for its end."""
        return Request("child", (self.id, "cancel", reason))


# In the worker.


class Answering:
    """Does for a handler elsewhere what it asks of its context. Made on the loop, used by the thread that reads."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._children: dict[str, Child[Any]] = {}
        self._loop = asyncio.get_running_loop()

    def answer(self, request: Request) -> tuple[bool, Any]:
        """Do it; return whether it went well, and the answer or what was raised."""
        return asyncio.run_coroutine_threadsafe(self._context._caught(self._do(request)), self._loop).result()

    async def _do(self, request: Request) -> Any:
        context, (first, *rest) = self._context, request.args or (None,)
        STEPS_AROUND.set(request.steps)
        match request.method:
            case "events":
                return context.cancelled.is_set(), context.lost.is_set()
            case "find_step":
                name, place = context._steps.ask(str(first))
                return name, place, await context._steps.find(name)
            case "put_step":
                return await context._put(str(first), *rest)
            case "_submit":
                child = await context._submit(first, *rest)
                self._children[child.id] = child
                return FarChild(child.id)
            case "child":
                return await getattr(self._children[str(first)], rest[0])(*rest[1:])
        assert request.method in _OFFERED, "the other end asks for nothing else"
        return await getattr(context, request.method)(*request.args, **request.named)


# In the other process.


class Line:
    """Our end of the pipe: one question at a time, whichever thread asks."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()

    def ask(self, request: Request) -> Any:
        """Ask the worker, and wait for its answer."""
        with self._lock:
            self._pipe.send(request)
            good, value = self._pipe.recv()
        if not good:
            raise value
        return value

    def tell(self, message: object) -> None:
        """Tell the worker something that needs no answer."""
        with self._lock:
            self._pipe.send(message)


class _Telling(logging.handlers.QueueHandler):
    """Sends what is logged to the worker, whose handlers know what to do with it."""

    def enqueue(self, record: logging.LogRecord) -> None:
        self.queue.tell(record)  # type: ignore[attr-defined] # it is our end of the pipe


class _Far:
    """Stands for the context: facts are known, and every call becomes a request."""

    def __init__(self, facts: Facts, line: Line) -> None:
        self._facts = facts
        self._line = line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._facts, name) if name in Facts.__dataclass_fields__ else partial(_request, name)

    @cached_property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        facts = self._facts
        log = bound_log(facts.kind, facts.execution_id, facts.attempt)
        log.logger = logging.Logger(log.logger.name, facts.level)  # noqa: LOG001 - that of this process is not ours
        log.logger.addHandler(_Telling(self._line))  # type: ignore[arg-type] # it only has to take what we give it
        return log


def _request(name: str, /, *args: Any, **named: Any) -> Request:
    return Request(name, args, named)


class RemoteContext(SyncContext):
    """What a handler in a process of its own gets: the face of `SyncContext`."""

    def __init__(self, facts: Facts, line: Line) -> None:
        self._context = _Far(facts, line)  # type: ignore[assignment]
        self._codec = facts.codec
        self._line = line

    @property
    def cancelled(self) -> bool:
        """Whether somebody has cancelled the run; the process is killed soon after."""
        return bool(self._line.ask(Request("events"))[0])

    @property
    def lost(self) -> bool:
        """Whether the lease is gone; the process is killed soon after."""
        return bool(self._line.ask(Request("events"))[1])

    def _step(
        self,
        name: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        policy: StepPolicy | None = None,
    ) -> Any:
        """Run the function here, and keep its result there."""
        unique, place, found = self._line.ask(Request("find_step", (name,)))
        if found is not None:
            return read_result(unique, found.result, found.encoding, fn, self._codec)
        value = self._called(unique, fn, args, kwargs, policy)
        result, encoding = write_result(unique, value, self._codec)
        kept = self._line.ask(Request("put_step", (unique, place, result, encoding)))
        return value if kept is None else read_result(unique, kept[0], kept[1], fn, self._codec)

    def _called(
        self,
        step: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        policy: StepPolicy | None,
    ) -> Any:
        """Call the function of a step, so that what it emits knows its step."""
        outer = STEPS_AROUND.set((*STEPS_AROUND.get(), step))
        try:
            if policy is not None:
                return _finish(policy.run(step, fn, args, kwargs, self.log, StepTimer()))
            value = fn(*args, **kwargs)
            return _finish(_awaited(value)) if inspect.isawaitable(value) else value
        finally:
            STEPS_AROUND.reset(outer)

    def _wait(self, work: Any) -> Any:
        return self._line.ask(work)


async def _awaited(value: Any) -> Any:
    return await value


def _finish(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end; in another thread if this one has an event loop that runs."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(contextvars.copy_context().run, asyncio.run, work).result()
