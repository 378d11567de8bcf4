"""Where handlers run: on the event loop, in threads, in processes of their own."""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import importlib
import multiprocessing
import multiprocessing.connection
import threading
import traceback
import types
from collections.abc import Callable, Coroutine, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from flowfabric.worker.faults import Interrupted

R = TypeVar("R")


class Interrupt:
    """Why a handler is to stop, once it is."""

    __slots__ = ("error", "on_interrupt")

    def __init__(self) -> None:
        self.error: Interrupted | None = None
        self.on_interrupt: Callable[[Interrupted], object] | None = None
        """Stops what runs outside the event loop."""

    def set(self, error: Interrupted) -> bool:
        """Note the first reason; says whether it was the first."""
        if self.error is not None:
            return False
        self.error = error
        if self.on_interrupt is not None:
            self.on_interrupt(error)
        return True


@types.coroutine
def interruptible(work: Coroutine[Any, Any, R], interrupt: Interrupt) -> Generator[Any, Any, R]:
    """Await a coroutine; when its task is cancelled for a reason of ours, that is what is raised into it."""
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


class Threads:
    """Runs plain functions in threads."""

    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(count, "flowfabric-handler")

    async def run(self, interrupt: Interrupt, call: Callable[[], R]) -> R:
        """Run a function; an interruption is raised into its thread, at its next step in Python."""
        thread = _Thread(call)
        interrupt.on_interrupt = thread.interrupt
        context = contextvars.copy_context()
        running = asyncio.get_running_loop().run_in_executor(self._pool, context.run, thread.run)
        outcome: tuple[bool, Any] = await asyncio.shield(running)
        interrupt.on_interrupt = None
        good, value = outcome
        if not good:
            raise value
        return value  # type: ignore[no-any-return]

    def close(self) -> None:
        """Take no more work; what still runs is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Thread:
    """One call in a thread, into which something may be raised while it runs and not after."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._ident = 0
        self._error: BaseException | None = None

    def run(self) -> tuple[bool, Any]:
        try:
            try:
                with self._lock:
                    if self._error is not None:
                        return False, self._error
                    self._ident = threading.get_ident()
                return True, self._call()
            except BaseException as error:  # noqa: BLE001 - it is raised where the handler is awaited
                return False, self._error or error
            finally:
                with self._lock:
                    self._ident = 0
        except Interrupted:  # it arrived when the call had just ended
            return False, self._error

    def interrupt(self, error: Interrupted) -> None:
        with self._lock:
            self._error = error
            if self._ident:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._ident), ctypes.py_object(type(error))
                )


class ProcessCrashed(Exception):
    """The process of a handler ended without an answer."""


class RemoteError(Exception):
    """What a handler raised in its process; the text is its traceback there."""


class Processes:
    """Runs functions in processes that are kept for the next call; an interruption kills the process."""

    def __init__(self) -> None:
        self._spawn = multiprocessing.get_context("spawn")
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()

    async def run(self, interrupt: Interrupt, function: Callable[..., Any], call: Mapping[str, Any]) -> Any:
        """Call a function by its name in another process."""
        process = self._idle.pop() if self._idle else await asyncio.to_thread(_Process, self._spawn)
        self._busy.add(process)
        interrupt.on_interrupt = lambda _: process.kill()
        if interrupt.error is not None:
            process.kill()
        running = asyncio.get_running_loop().run_in_executor(None, process.call, function, call)
        try:
            good, value = await asyncio.shield(running)
        except (EOFError, OSError) as error:
            process.kill()
            code = await asyncio.to_thread(process.wait)
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
        """End every process."""
        processes = [*self._idle, *self._busy]
        for process in processes:
            process.kill()
        for process in processes:
            await asyncio.to_thread(process.wait)


class _Process:
    """A process that waits for calls."""

    def __init__(self, spawn: multiprocessing.context.SpawnContext) -> None:
        self._ours, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(theirs,), name="flowfabric-handler", daemon=True)
        self._process.start()
        theirs.close()

    def call(self, function: Callable[..., Any], call: Mapping[str, Any]) -> tuple[bool, Any]:
        module, name = function.__module__, function.__qualname__
        self._ours.send((module, name, dict(call)))
        good: bool
        value: Any
        good, value, detail = self._ours.recv()
        if not good:
            value.__cause__ = RemoteError(detail)
        return good, value

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int | None:
        self._process.join()
        return self._process.exitcode


def _serve(calls: multiprocessing.connection.Connection) -> None:
    """Answer calls until the other end is closed."""
    while True:
        try:
            module, name, call = calls.recv()
        except EOFError:
            return
        try:
            answer = (True, _function(module, name)(**call), "")
        except BaseException as error:  # noqa: BLE001 - it is raised in the worker
            answer = (False, error, traceback.format_exc())
        try:
            calls.send(answer)
        except Exception as error:  # noqa: BLE001 - what cannot be pickled must not kill the process
            text = f"{type(answer[1]).__qualname__} cannot cross to the worker: {error}"
            calls.send((False, RuntimeError(text), answer[2]))


def _function(module: str, name: str) -> Callable[..., Any]:
    """Find a function by name; one that became a task is called through it."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if asyncio.iscoroutinefunction(found) or asyncio.iscoroutinefunction(getattr(found, "function", None)):
        return lambda **call: asyncio.run(found(**call))
    return found  # type: ignore[no-any-return]
