"""The context of a handler in a process of its own: its calls cross a pipe to the worker."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import logging.handlers
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from multiprocessing.connection import Connection
from typing import Any, ParamSpec, TypeVar

from flowfabric.worker.context.bridge import ChildMethod, ContextMethod
from flowfabric.worker.context.facts import ContextFacts, Log, task_log
from flowfabric.worker.context.process_requests import ContextRequest
from flowfabric.worker.options import Options
from flowfabric.worker.steps.journal import STEPS_AROUND
from flowfabric.worker.steps.policy import StepPolicy, StepTimer
from flowfabric.worker.steps.results import read_result, write_result

P = ParamSpec("P")
R = TypeVar("R")


class WorkerPipe:
    """The process's end of the pipe to its worker. Threads take turns: one request at a time."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()

    def ask(self, method: str, /, *args: Any, **kwargs: Any) -> Any:
        """Send a request to the worker, and wait for its answer."""
        with self._lock:
            self._pipe.send(ContextRequest(method, args, kwargs))
            succeeded, value = self._pipe.recv()
        if not succeeded:
            raise value
        return value

    def tell(self, message: object) -> None:
        """Send a message that needs no answer."""
        with self._lock:
            self._pipe.send(message)


class _PipeLogHandler(logging.handlers.QueueHandler):
    """Sends log records to the worker, whose logging configuration applies."""

    def enqueue(self, record: logging.LogRecord) -> None:
        self.queue.tell(record)  # type: ignore[attr-defined] # the queue is a WorkerPipe


class ProcessBridge:
    """Connects a handler in a process of its own with the event loop of its worker."""

    def __init__(self, facts: ContextFacts, pipe: WorkerPipe) -> None:
        self._facts = facts
        self._pipe = pipe

    @property
    def facts(self) -> ContextFacts:
        """What is known without asking."""
        return self._facts

    @cached_property
    def log(self) -> Log:
        """The logger of the run; its records are handled by the worker."""
        facts = self._facts
        log = task_log(facts.kind, facts.execution_id, facts.attempt)
        log.logger = logging.Logger(log.logger.name, facts.log_level)  # noqa: LOG001 - handlers of this process do not apply
        log.logger.addHandler(_PipeLogHandler(self._pipe))  # type: ignore[arg-type] # `enqueue` is all it needs
        return log

    def is_cancelled(self) -> bool:
        """Return True if the run has been cancelled; the process is killed soon after."""
        return bool(self._pipe.ask("events")[0])

    def is_lost(self) -> bool:
        """Return True if the lease is gone; the process is killed soon after."""
        return bool(self._pipe.ask("events")[1])

    def call(self, method: ContextMethod[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a method of `Context` in the worker."""
        answer: R = self._pipe.ask(method.__name__, *args, **kwargs)
        return answer

    def run_step(
        self,
        name: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        policy: StepPolicy | None,
    ) -> Any:
        """Run the function of a step in this process, and store its result through the worker."""
        codec = self._facts.codec
        unique, position, found = self._pipe.ask("find_step", name)
        if found is not None:
            return read_result(unique, found.result, found.encoding, fn, codec)
        value = self._call_function(unique, fn, args, kwargs, policy)
        result, encoding = write_result(unique, value, codec)
        stored = self._pipe.ask("put_step", unique, position, result, encoding)
        return value if stored is None else read_result(unique, stored[0], stored[1], fn, codec)

    def _call_function(
        self,
        step: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        policy: StepPolicy | None,
    ) -> Any:
        outer = STEPS_AROUND.set((*STEPS_AROUND.get(), step))
        try:
            if policy is not None:
                return _run(policy.run(step, fn, args, kwargs, self.log, StepTimer()))
            value = fn(*args, **kwargs)
            return _run(_awaited(value)) if inspect.isawaitable(value) else value
        finally:
            STEPS_AROUND.reset(outer)

    def submit(
        self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: Options
    ) -> str:
        """Submit a child through the worker and return its id."""
        return str(self._pipe.ask("submit", function, args, kwargs, options))

    def call_child(self, child_id: str, method: ChildMethod, argument: Any) -> Any:
        """Call a method of the handle of a child, which the worker keeps."""
        return self._pipe.ask("call_child", child_id, method, argument)


async def _awaited(value: Any) -> Any:
    return await value


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end; in another thread if this thread has a running event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(contextvars.copy_context().run, asyncio.run, work).result()
