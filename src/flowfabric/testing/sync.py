"""The lab for tests that are not async: it runs on an event loop in a thread, which `app.sync` uses."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

from flowfabric.app import FlowFabric, Frame, Run, SyncRun
from flowfabric.codecs import Duration
from flowfabric.testing.crash import Crash
from flowfabric.testing.lab import Lab

R = TypeVar("R")


class SyncClock:
    """The clock of a lab, for tests that are not async."""

    def __init__(self, lab: SyncLab) -> None:
        self._lab = lab

    @property
    def now(self) -> datetime:
        """The current time of the lab, in UTC."""
        return self._lab.lab.clock.now

    def advance(self, duration: Duration) -> None:
        """Advance the clock, as `Clock.advance` does."""
        self._lab.call(self._lab.lab.clock.advance(duration))


class SyncLab:
    """A `Lab` for tests that are not async: inside the block, `app.sync` uses it.

    ::

        with SyncLab(app) as lab:
            run = app.sync.submit(remind, "ada@example.org")
            lab.clock.advance("1d")
            assert lab.result(run) == "sent"

    Flask and Django views that use `app.sync` can be called through their usual test clients. The options are those of
    `Lab`.
    """

    def __init__(self, app: FlowFabric, store: str = "", **options: Any) -> None:
        self.lab = Lab(app, store, **options)
        """The async lab, on its event loop."""
        self.clock = SyncClock(self)
        """The clock: `lab.clock.advance("1d")`."""
        self._loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread

    def __enter__(self) -> Self:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._loop = asyncio.new_event_loop()
        else:
            raise RuntimeError("this test is async: use `async with Lab(app)`, which does not block its loop")
        self._thread = threading.Thread(target=self._loop.run_forever, name="flowfabric-lab", daemon=True)
        self._thread.start()
        try:
            self.call(self.lab.__aenter__())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.call(self.lab.__aexit__(kind, error, trace))
        finally:
            self._end()

    def call(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine on the event loop of the lab, and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # Waiting.

    def settle(self) -> None:
        """Wait until nothing more can happen at the current time."""
        self.call(self.lab.settle())

    def begun(self, run: SyncRun[Any]) -> None:
        """Wait until the handler of a run is running."""
        self.call(self.lab.begun(_run_of(run)))

    def result(self, run: SyncRun[R]) -> R:
        """Settle, and return the result of a run."""
        return self.call(self.lab.result(_run_of(run)))

    # Signals.

    def signal(self, run: SyncRun[Any], name: str, payload: Any = None, **options: Any) -> None:
        """Send a signal, and settle."""
        self.call(self.lab.signal(_run_of(run), name, payload, **options))

    def approve(self, run: SyncRun[Any], payload: Any = None, **options: Any) -> None:
        """Approve what the run waits for, and settle."""
        self.call(self.lab.approve(_run_of(run), payload, **options))

    def reject(self, run: SyncRun[Any], payload: Any = None, **options: Any) -> None:
        """Reject what the run waits for, and settle."""
        self.call(self.lab.reject(_run_of(run), payload, **options))

    def visit(self, link: str) -> None:
        """Answer on the page of an approval link with its first signal, and settle."""
        self.call(self.lab.visit(link))

    def expire(self, run: SyncRun[Any]) -> None:
        """Advance the clock until the wait of the run times out."""
        self.call(self.lab.expire(_run_of(run)))

    # Crashes.

    def crash_before(self, step: str) -> Crash:
        """Crash the worker right before the function of a step is called."""
        return self._do(lambda: self.lab.crash_before(step))

    def crash_during(self, step: str) -> Crash:
        """Crash the worker after the function of a step has run and before its result is stored."""
        return self._do(lambda: self.lab.crash_during(step))

    def crash_after(self, step: str) -> Crash:
        """Crash the worker right after the result of a step is stored."""
        return self._do(lambda: self.lab.crash_after(step))

    def crash(self) -> None:
        """Crash every worker now."""
        self._do(self.lab.crash)

    def _do(self, something: Callable[[], R]) -> R:
        async def done() -> R:
            return something()

        return self.call(done())

    # Inspecting.

    def steps(self, run: SyncRun[Any], *, waits: bool = False) -> list[str]:
        """Return the names of the stored steps of a run."""
        return self.call(self.lab.steps(_run_of(run), waits=waits))

    def frames(self, run: SyncRun[Any], type_: str = "") -> list[Frame]:
        """Return the frames of the last attempt."""
        return self.call(self.lab.frames(_run_of(run), type_))

    def assert_state(self, run: SyncRun[Any], state: str) -> None:
        """Settle, and check the state of a run."""
        self.call(self.lab.assert_state(_run_of(run), state))

    def assert_steps(self, run: SyncRun[Any], names: Sequence[str], *, waits: bool = False) -> None:
        """Settle, and check which steps a run has stored."""
        self.call(self.lab.assert_steps(_run_of(run), names, waits=waits))

    def assert_frames(self, run: SyncRun[Any], payloads: Iterable[Any], type_: str = "") -> None:
        """Settle, and check what the last attempt emitted."""
        self.call(self.lab.assert_frames(_run_of(run), payloads, type_))


def _run_of(run: SyncRun[R]) -> Run[R]:
    """Return the async handle of a run, which keeps the type of its result."""
    return run._run  # noqa: SLF001 - a SyncRun does not show it to programs that are not async
