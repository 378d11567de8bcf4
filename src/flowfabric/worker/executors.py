"""Where handlers run: on the event loop, or in processes of their own; threads are in `threads`."""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import multiprocessing.connection
import traceback
import types
from collections.abc import Callable, Coroutine, Generator, Mapping
from functools import partial
from typing import Any, TypeVar

from flowfabric.worker.threads import Interrupt, in_thread

R = TypeVar("R")


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
        process = self._idle.pop() if self._idle else await in_thread(partial(_Process, self._spawn))
        self._busy.add(process)
        interrupt.on_interrupt = lambda _: process.kill()
        if interrupt.error is not None:
            process.kill()
        try:
            good, value = await in_thread(partial(process.call, function, call))
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
        """End every process."""
        processes = [*self._idle, *self._busy]
        for process in processes:
            process.kill()
        for process in processes:
            await in_thread(process.wait)


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
