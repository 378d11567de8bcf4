"""Running handlers in separate processes, and interrupting those on the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import logging
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
import types
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from flowfabric.worker.context.facts import ContextFacts
from flowfabric.worker.context.process_bridge import ProcessBridge, WorkerPipe
from flowfabric.worker.context.process_requests import ContextRequest, RequestServer
from flowfabric.worker.context.session import HandlerSession
from flowfabric.worker.context.sync_context import SyncContext
from flowfabric.worker.execution.stopping import SIGNALS
from flowfabric.worker.execution.threads import Interrupt, in_thread
from flowfabric.worker.faults import ProcessCrashed, RemoteError

R = TypeVar("R")
Answer = Callable[[ContextRequest], tuple[bool, Any]]


@types.coroutine
def interruptible(work: Coroutine[Any, Any, R], interrupt: Interrupt) -> Generator[Any, Any, R]:
    """Await a coroutine. If its task is cancelled by an interruption, raise that instead of `CancelledError`."""
    error: BaseException | None = None
    while True:
        try:
            waited = work.send(None) if error is None else work.throw(error)
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]
        try:
            yield waited  # a task sends nothing but None
            error = None
        except asyncio.CancelledError as cancelled:
            error = interrupt.error or cancelled
        except BaseException as other:  # noqa: BLE001 - it belongs to the coroutine
            error = other


class ProcessPool:
    """Runs functions in processes that are reused for later calls; an interruption kills the process."""

    def __init__(self) -> None:
        self._spawn = multiprocessing.get_context("spawn")
        self._idle: list[_HandlerProcess] = []
        self._busy: set[_HandlerProcess] = set()

    async def run(
        self,
        interrupt: Interrupt,
        function: Callable[..., Any],
        placed: Sequence[Any],
        named: Mapping[str, Any],
        session: HandlerSession | None = None,
    ) -> Any:
        """Call a function by its name in another process, and answer the requests of its context."""
        answer = RequestServer(session).answer if session is not None else None
        process = self._idle.pop() if self._idle else await in_thread(partial(_HandlerProcess, self._spawn))
        self._busy.add(process)
        interrupt.on_interrupt = lambda _: process.kill()
        if interrupt.error is not None:
            process.kill()
        try:
            good, value = await in_thread(partial(process.call, function, placed, named, answer))
        except (EOFError, OSError) as error:
            process.kill()
            code = await in_thread(process.wait)
            raise interrupt.error or ProcessCrashed(
                f"the process of the handler ended with code {code}"
            ) from error
        except BaseException:
            process.kill()
            raise
        finally:
            interrupt.on_interrupt = None
            self._busy.discard(process)
        self._idle.append(process)
        if not good:
            raise value
        return value

    async def close(self) -> None:
        """Kill every process."""
        processes = [*self._idle, *self._busy]
        for process in processes:
            process.kill()
        for process in processes:
            await in_thread(process.wait)


class _HandlerProcess:
    """A process that serves one call at a time."""

    def __init__(self, spawn: multiprocessing.context.SpawnContext) -> None:
        self._ours, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(theirs,), name="flowfabric-handler", daemon=True)
        with _signals_blocked():
            self._process.start()
        theirs.close()

    def call(
        self,
        function: Callable[..., Any],
        placed: Sequence[Any],
        named: Mapping[str, Any],
        answer: Answer | None,
    ) -> tuple[bool, Any]:
        try:
            self._ours.send((function.__module__, function.__qualname__, placed, named))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            name = function.__qualname__
            raise TypeError(
                f"what {name} is called with cannot cross to a process of its own: {error}"
            ) from error
        while not isinstance(said := self._ours.recv(), CallOutcome):
            if isinstance(said, logging.LogRecord):
                logging.getLogger(said.name).handle(said)
            else:
                assert answer is not None, "only a context asks"
                _send(self._ours, answer(said), lambda error: (False, error))
        if not said.good:
            said.value.__cause__ = RemoteError(said.detail)
        return said.good, said.value

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int | None:
        self._process.join()
        return self._process.exitcode


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The outcome of a call: a value, or an exception and its traceback."""

    good: bool
    value: Any
    detail: str = ""


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block stop signals, for a child process to inherit until it has installed its own handlers.

    Otherwise Ctrl-C would end a process that is still importing modules, and its handler would seem to have crashed.
    """
    resource_tracker.ensure_running()  # it unblocks these signals in the thread that starts it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(calls: Connection) -> None:
    """Serve calls until the worker closes the pipe."""
    for number in SIGNALS:
        # A terminal or a service manager signals every process of a group, but the worker decides how long handlers may
        # continue. A no-op function instead of SIG_IGN, which processes that handlers start would inherit.
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    threading.Thread(target=_end_with_worker, name="flowfabric-end-with-worker", daemon=True).start()
    pipe = WorkerPipe(calls)

    def here(value: Any) -> Any:
        return SyncContext(ProcessBridge(value, pipe)) if isinstance(value, ContextFacts) else value

    while True:
        try:
            module, name, placed, named = calls.recv()
        except EOFError:
            return
        try:
            call = _function(module, name)
            ended = CallOutcome(
                True, call(*map(here, placed), **{key: here(value) for key, value in named.items()})
            )
        except BaseException as error:  # noqa: BLE001 - it is raised in the worker
            ended = CallOutcome(False, error, traceback.format_exc())
        _send(calls, ended, partial(CallOutcome, False, detail=ended.detail))


def _end_with_worker() -> None:
    """Exit when the worker process has ended for any reason: another worker will run the task."""
    worker = multiprocessing.parent_process()
    assert worker is not None, "a worker has started this process"
    worker.join()
    os._exit(1)


def _send(pipe: Connection, message: Any, instead: Callable[[Exception], Any]) -> None:
    """Send a message; if it cannot be pickled and unpickled, send the `instead` of the error."""
    try:
        data = pickle.dumps(message)
        pickle.loads(data)  # noqa: S301 - our own
    except Exception as error:  # noqa: BLE001 - user classes may raise anything
        value = message.value if isinstance(message, CallOutcome) else message[1]
        kind = type(value)
        text = f"{kind.__qualname__} cannot cross between the worker and its process: {error}"
        data = pickle.dumps(instead(TypeError(f"{text} ({value})" if isinstance(value, Exception) else text)))
    pipe.send_bytes(data)


def _function(module: str, name: str) -> Callable[..., Any]:
    """Import a function by its module and qualified name."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if inspect.iscoroutinefunction(found):
        return lambda *placed, **named: asyncio.run(found(*placed, **named))
    return found  # type: ignore[no-any-return]
