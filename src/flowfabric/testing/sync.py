"""A lab for tests that are not async: it lives on an event loop in a thread, where `app.sync` finds it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

from flowfabric.app import FlowFabric, Frame, Run, SyncRun
from flowfabric.codecs import Duration
from flowfabric.testing.lab import Lab
from flowfabric.testing.worker_store import Crash

R = TypeVar("R")


class SyncClock:
    """The time of a lab, for tests that are not async."""

    def __init__(self, lab: SyncLab) -> None:
        self._lab = lab

    @property
    def now(self) -> datetime:
        """The present, in UTC."""
        return self._lab.lab.clock.now

    def advance(self, duration: Duration) -> None:
        """Move on, as `Clock.advance` does."""
        self._lab.call(self._lab.lab.clock.advance(duration))


class SyncLab:
    """A `Lab` for tests that are not async: everything that `app.sync` does inside happens in it.

    ::

        with SyncLab(app) as lab:
            run = app.sync.submit(remind, "ada@example.org")
            lab.clock.advance("1d")
            assert lab.result(run) == "sent"

    Views of Flask and Django that use `app.sync` are called as their own test clients do. The options are those of
    `Lab`.
    """

    def __init__(self, app: FlowFabric, store: str = "", **options: Any) -> None:
        self.lab = Lab(app, store, **options)
        """The lab itself, on its loop."""
        self.clock = SyncClock(self)
        """The time: `lab.clock.advance("1d")`."""
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
        """Run something on the loop of the lab, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # Going on.

    def settle(self) -> None:
        """Wait until nothing more can happen at this time."""
        self.call(self.lab.settle())

    def begun(self, run: SyncRun[Any]) -> None:
        """Wait until the handler of a run works."""
        self.call(self.lab.begun(_run_of(run)))

    def result(self, run: SyncRun[R]) -> R:
        """Settle, and return the result of a run."""
        return self.call(self.lab.result(_run_of(run)))

    # People.

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
        """Do what somebody does who opens an approval link and agrees, and settle."""
        self.call(self.lab.visit(link))

    def expire(self, run: SyncRun[Any]) -> None:
        """Let the time of the run's wait pass."""
        self.call(self.lab.expire(_run_of(run)))

    # Accidents.

    def crash_before(self, step: str) -> Crash:
        """Let the worker die right before the function of a step is called."""
        return self._do(lambda: self.lab.crash_before(step))

    def crash_during(self, step: str) -> Crash:
        """Let the worker die when the function of a step has run and its result is not stored."""
        return self._do(lambda: self.lab.crash_during(step))

    def crash_after(self, step: str) -> Crash:
        """Let the worker die right after the result of a step is stored."""
        return self._do(lambda: self.lab.crash_after(step))

    def crash(self) -> None:
        """Let every worker die now."""
        self._do(self.lab.crash)

    def _do(self, something: Callable[[], R]) -> R:
        async def done() -> R:
            return something()

        return self.call(done())

    # Looking.

    def steps(self, run: SyncRun[Any], *, waits: bool = False) -> list[str]:
        """Name the stored steps of a run."""
        return self.call(self.lab.steps(_run_of(run), waits=waits))

    def frames(self, run: SyncRun[Any], type_: str = "") -> list[Frame]:
        """Return the frames of the last attempt."""
        return self.call(self.lab.frames(_run_of(run), type_))

    def assert_state(self, run: SyncRun[Any], state: str) -> None:
        """Settle, and check where a run stands."""
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
