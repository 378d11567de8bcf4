"""The app for code that is not async, such as Django, Flask and scripts: it runs an event loop in a thread."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack, overload

from flowfabric.app.connection import StoreConnection
from flowfabric.app.run import Run
from flowfabric.app.stream import StreamItem
from flowfabric.app.submitter import AppCore, Submitter
from flowfabric.app.views import AttemptStarted, Explanation, Frame, Status, Superseded
from flowfabric.codecs import Duration
from flowfabric.model.records import Event
from flowfabric.worker.calls import Call
from flowfabric.worker.context.context import Context
from flowfabric.worker.context.sync_context import SyncContext
from flowfabric.worker.options import Options, SubmitOptions, submit_options

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Portal:
    """An event loop in a thread of its own, for calls from other threads. A forked process starts a new one."""

    def __init__(self, connection: StoreConnection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._process = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def call(self, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Run a coroutine on the event loop, and wait for its result."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run_coroutine_threadsafe(
                work(), self._connection.lent_on or self._started()
            ).result()
        raise RuntimeError(
            "this would block the event loop: await app.submit(…) and its runs instead of app.sync, "
            "or call it in a thread: await asyncio.to_thread(…)"
        )

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._process != os.getpid():
                self._loop, self._process = asyncio.new_event_loop(), os.getpid()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="flowfabric-sync", daemon=True
                )
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """Stop the thread."""
        with self._lock:
            loop, thread, self._loop = self._loop, self._thread, None
            if loop is None or thread is None or self._process != os.getpid():
                return
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class SyncRun(Generic[R_co]):
    """The handle of a run for code that is not async, with the methods of `Run`."""

    def __init__(self, portal: Portal, run: Run[R_co]) -> None:
        self._portal = portal
        self._run = run
        self.duplicate = run.duplicate

    @property
    def id(self) -> str:
        """The id of the run, as `Run.id`."""
        return self._run.id

    def __repr__(self) -> str:
        return f"SyncRun({self.id!r})"

    def result(self, timeout: Duration | None = None) -> R_co:
        """Wait until the run has ended, and return the result of its task."""
        return self._portal.call(lambda: self._run.result(timeout))

    def status(self) -> Status:
        """Return the current status."""
        return self._portal.call(self._run.status)

    def explain(self) -> Explanation:
        """Return why the run makes no progress."""
        return self._portal.call(self._run.explain)

    def history(self) -> list[Event]:
        """Return every event of the run, in order."""
        return self._portal.call(self._run.history)

    def cancel(self, reason: str = "") -> None:
        """Cancel the run in any state."""
        self._portal.call(lambda: self._run.cancel(reason))

    def signal(
        self,
        name: str,
        payload: Any = None,
        *,
        waitpoint: str = "",
        token: str = "",
        by: str = "",
        key: str = "",
        within: Duration = 0,
    ) -> None:
        """Send a signal to the run."""
        self._portal.call(
            lambda: self._run.signal(
                name, payload, waitpoint=waitpoint, token=token, by=by, key=key, within=within
            )
        )

    def approve(
        self, payload: Any = None, *, by: str = "", waitpoint: str = "", within: Duration = 0
    ) -> None:
        """Send the signal `approve`."""
        self._portal.call(lambda: self._run.approve(payload, by=by, waitpoint=waitpoint, within=within))

    def reject(self, payload: Any = None, *, by: str = "", waitpoint: str = "", within: Duration = 0) -> None:
        """Send the signal `reject`."""
        self._portal.call(lambda: self._run.reject(payload, by=by, waitpoint=waitpoint, within=within))

    def replay(self, *, keep_steps: bool = False, from_step: str = "", reason: str = "") -> None:
        """Run an ended run again."""
        self._portal.call(lambda: self._run.replay(keep_steps=keep_steps, from_step=from_step, reason=reason))

    def stream(
        self, after: str = "", *, include_superseded: bool = False
    ) -> Iterator[Frame | AttemptStarted | Superseded]:
        """Yield what the run emits, from the beginning or after a position, until the run has ended."""
        items = self._run.stream(after, include_superseded=include_superseded)
        try:
            while (item := self._portal.call(lambda: _next(items))) is not None:
                yield item
        finally:
            self._portal.call(lambda: _close(items))


async def _next(items: AsyncGenerator[StreamItem]) -> StreamItem | None:
    return await anext(items, None)


async def _close(items: AsyncGenerator[Any]) -> None:
    await items.aclose()


class SyncFlowFabric:
    """The app for code that is not async, with the methods of `FlowFabric`.

    ::

        print(app.sync.submit(review, "text").result(timeout="1m"))
    """

    def __init__(self, core: AppCore, options: Options, portal: Portal | None = None) -> None:
        self._core = core if portal is not None else core.on(core.connection.of_its_own())
        self._portal = portal or Portal(self._core.connection)
        self._submitter = Submitter(self._core, options)
        if portal is None:
            atexit.register(self.close)

    @overload
    def submit(self, task: Call[R], /) -> SyncRun[R]: ...
    @overload
    def submit(
        self,
        task: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> SyncRun[R]: ...
    @overload
    def submit(
        self, task: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> SyncRun[R]: ...
    @overload
    def submit(
        self, task: Callable[Concatenate[SyncContext, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> SyncRun[R]: ...
    @overload
    def submit(self, task: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> SyncRun[R]: ...
    @overload
    def submit(self, task: str, /, *args: Any, **kwargs: Any) -> SyncRun[Any]: ...

    def submit(
        self, task: Callable[..., Any] | Call[Any] | str, /, *args: Any, **kwargs: Any
    ) -> SyncRun[Any]:
        """Submit a call of a task to be run by a worker, and return its handle."""
        run: Run[Any] = self._portal.call(lambda: self._submitter.submit(task, *args, **kwargs))
        return SyncRun(self._portal, run)

    def submit_many(self, calls: Iterable[Call[R]]) -> list[SyncRun[R]]:
        """Submit many calls of `app.call` in few round trips."""
        runs = self._portal.call(lambda: self._submitter.submit_many(calls))
        return [SyncRun(self._portal, run) for run in runs]

    def options(self, **options: Unpack[SubmitOptions]) -> SyncFlowFabric:
        """Return a submitter whose options override those of the tasks; see `FlowFabric.options`."""
        return SyncFlowFabric(self._core, submit_options(options), self._portal)

    @overload
    def run(self, execution_id: str, task: Callable[..., Coroutine[Any, Any, R]], /) -> SyncRun[R]: ...
    @overload
    def run(self, execution_id: str, task: Callable[..., R], /) -> SyncRun[R]: ...
    @overload
    def run(self, execution_id: str, /) -> SyncRun[Any]: ...

    def run(self, execution_id: str, task: Callable[..., Any] | None = None, /) -> SyncRun[Any]:
        """Return the handle of a run by its id. The task determines the type of the result."""
        return SyncRun(self._portal, self._core.run(execution_id, task))

    def close(self) -> None:
        """Close the store and stop the thread. The next use starts both again."""
        with suppress(RuntimeError):
            self._portal.call(self._core.connection.close)
        self._portal.close()
