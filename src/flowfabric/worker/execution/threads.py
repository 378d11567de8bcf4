"""A pool of daemon threads for blocking functions, which can be interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import ctypes
import os
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from flowfabric.worker.faults import Interrupted

R = TypeVar("R")


class Interrupt:
    """The reason why a call must stop, once it must."""

    __slots__ = ("error", "on_interrupt")

    def __init__(self) -> None:
        self.error: Interrupted | None = None
        self.on_interrupt: Callable[[Interrupted], object] | None = None
        """Called to stop what runs outside the event loop."""

    def set(self, error: Interrupted) -> bool:
        """Record the reason; return False if there was one before."""
        if self.error is not None:
            return False
        self.error = error
        if self.on_interrupt is not None:
            self.on_interrupt(error)
        return True


async def in_thread(call: Callable[[], R], interrupt: Interrupt | None = None) -> R:
    """Run a function in a thread. An interruption is raised there at its next Python instruction."""
    job = _Job(call, asyncio.get_running_loop())
    if interrupt is not None:
        interrupt.on_interrupt = job.interrupt
    _POOL.start(job)
    good, value = await job.outcome
    if not good:
        raise value
    return value  # type: ignore[no-any-return]


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    """Mark the thread as waiting for the event loop: an interruption is raised when the wait is over.

    Nothing may be raised into a waiting thread. It could not handle it, and until it does, Python checks for it at
    every instruction of every thread; a traced program on Python 3.11 makes no progress then.
    """
    job: _Job | None = getattr(_HERE, "job", None)
    if job is None:
        yield
        return
    job.leave()
    try:
        yield
    finally:
        job.come_back()


_HERE = threading.local()
"""Holds the job that the current thread runs."""


class _Job:
    """One call in a thread, into which an exception can be raised only while it runs."""

    def __init__(self, call: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.outcome: asyncio.Future[tuple[bool, Any]] = loop.create_future()
        self._loop = loop
        self._call = contextvars.copy_context().run
        self._function = call
        self._lock = threading.Lock()
        self._ident = 0
        self._error: BaseException | None = None

    def run(self) -> None:
        """Run the call in the thread, and pass its outcome to the event loop."""
        outcome = self._run()
        with contextlib.suppress(RuntimeError):  # the loop has ended, so nobody waits
            self._loop.call_soon_threadsafe(self._settle, outcome)

    def _run(self) -> tuple[bool, Any]:
        try:
            try:
                _HERE.job = self
                self.come_back()
                return True, self._call(self._function)
            except BaseException as error:  # noqa: BLE001 - it is raised where the call is awaited
                return False, self._error or error
            finally:
                with self._lock:
                    self._ident = 0
                    _HERE.job = None
        except Interrupted:  # it arrived when the call had just ended
            return False, self._error

    def leave(self) -> None:
        """Allow no interruption from now on; raise one that has arrived."""
        with self._lock:
            self._ident = 0
        if self._error is not None:
            raise self._error

    def come_back(self) -> None:
        """Allow interruptions from now on; raise one that has arrived meanwhile."""
        with self._lock:
            if self._error is not None:
                raise self._error
            self._ident = threading.get_ident()

    def _settle(self, outcome: tuple[bool, Any]) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    def interrupt(self, error: Interrupted) -> None:
        """Raise an exception into the thread if the call still runs."""
        with self._lock:
            self._error = error
            if self._ident:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._ident), ctypes.py_object(type(error))
                )


class _Pool:
    """As many threads as are needed at once. They are daemons, so that they do not keep the program alive."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start with an empty pool: after a fork the threads are gone."""
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)

    def start(self, job: _Job) -> None:
        """Run a call in an idle thread, or in a new one."""
        self._jobs.put(job)
        if not self._idle.acquire(blocking=False):
            threading.Thread(target=self._work, name="flowfabric-handler", daemon=True).start()

    def _work(self) -> None:
        jobs, idle = self._jobs, self._idle
        while True:
            jobs.get().run()
            idle.release()


_POOL = _Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_POOL.forget)
