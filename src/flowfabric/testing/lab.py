"""The lab: an app on a temporary store, with workers, timers and a clock that a test controls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from weakref import WeakSet

from flowfabric.app import Call, FlowFabric, Frame, Run
from flowfabric.app.submit_methods import SubmitMethods
from flowfabric.codecs import Duration, seconds
from flowfabric.model.errors import invalid
from flowfabric.model.operations.access_secret import SeedSecret
from flowfabric.model.operations.suspend_resume import GetSuspension
from flowfabric.model.tokens import SEED_SECRET_LENGTH
from flowfabric.storage import open_store
from flowfabric.storage.base import Upkeep
from flowfabric.storage.memory import MemoryStore
from flowfabric.storage.seeding import FIRST_KID
from flowfabric.testing import approval_links, assertions
from flowfabric.testing.clock import START, Clock
from flowfabric.testing.crash import Crash, Moment
from flowfabric.testing.driver import LabDriver
from flowfabric.testing.lab_worker import LabWorker
from flowfabric.testing.observed_store import ChangeSignal, ObservedStore

R = TypeVar("R")
PATIENCE_SECONDS: Final = 10.0
_APPS_IN_LABS: Final[WeakSet[FlowFabric]] = WeakSet()


class Lab(SubmitMethods):
    """Runs an app under test with its real engine, timers and workers; only the clock is simulated.

    ::

        async with Lab(app) as lab:
            run = await lab.submit(remind, "ada@example.org")
            await lab.clock.advance("1d")
            await lab.assert_state(run, "completed")

    Inside the block the app uses a store in memory, or the one at the URL; afterwards it uses its own again. Work runs
    as soon as it can; `settle` waits until nothing more can happen at the current time, and gives up after `patience`.
    `start` is the initial time of the clock. `worker` are options of `FlowFabric.worker`, such as lanes and
    capabilities.
    """

    def __init__(
        self,
        app: FlowFabric,
        store: str = "",
        *,
        start: datetime = START,
        patience: Duration = PATIENCE_SECONDS,
        **worker: Any,
    ) -> None:
        if store.startswith(("http://", "https://")):
            raise invalid("store", "a server has a clock of its own: a lab needs the store itself")
        self.app = app
        """The app under test."""
        self.clock = Clock(start, self._travel)
        """The clock: `await lab.clock.advance("1d")`."""
        self.store: Upkeep
        """The store itself, for operations that the lab does not offer."""
        self._url = store
        self._patience = seconds(patience, "patience")
        self._worker = worker
        self._crashes: list[Crash] = []
        self._stack = AsyncExitStack()
        self._driver: LabDriver

    async def __aenter__(self) -> Self:
        if self.app in _APPS_IN_LABS:
            raise AssertionError("the app is in a lab already: leave that one first, or give each lab an app")
        async with AsyncExitStack() as stack:
            self.store = await self._open()
            stack.push_async_callback(self.store.close)
            changes = ChangeSignal()
            stack.enter_context(self.app.using(ObservedStore(self.store, changes)))
            _APPS_IN_LABS.add(self.app)
            stack.callback(_APPS_IN_LABS.discard, self.app)

            async def start_worker() -> LabWorker:
                worker = LabWorker(self.app, self.store, changes, self._crashes, self._worker)
                await worker.start()
                return worker

            self._driver = LabDriver(self.store, self.clock, changes, start_worker, self._patience)
            await self._driver.start()
            stack.push_async_callback(self._driver.stop)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
        missed = [crash for crash in self._crashes if not crash.happened]
        if missed and error is None:
            raise AssertionError(
                f"{', '.join(map(str, missed))} never happened: no run came to that step while it was planned. "
                "Plan a crash before you submit, and name the step as the handler does"
            )

    async def _open(self) -> Upkeep:
        if self._url:
            return await open_store(self._url, clock=self.clock, chance=_middle)
        store = MemoryStore(clock=self.clock, chance=_middle)
        await store.apply(SeedSecret(kid=FIRST_KID, secret_hex="5a" * (SEED_SECRET_LENGTH // 2)))
        return store

    # Submitting, as the app does.

    def _call(
        self, task: Callable[..., Any] | str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Call[Any]:
        return self.app.call(task, *args, **kwargs)

    async def _submit(self, call: Call[R]) -> Run[R]:
        return await self.app.submit(call)

    async def _submit_many(self, calls: list[Call[R]]) -> list[Run[R]]:
        return await self.app.submit_many(calls)

    # Waiting.

    async def settle(self) -> None:
        """Wait until nothing runs and nothing more can happen at the current time; raise `StillRunning` if that fails.

        After a crash the clock advances by itself until the lease of the crashed worker has expired.
        """
        await self._driver.settle()

    async def begun(self, run: Run[Any]) -> None:
        """Wait until the handler of a run is running, if it does not return before the clock advances.

        ::

            run = await lab.submit(download, "http://a")
            await lab.begun(run)
            await lab.clock.advance("1m")          # its timeout
        """
        await self._driver.begun(run.id)

    async def result(self, run: Run[R]) -> R:
        """Settle, and return the result of a run.

        Raises what `Run.result` raises, and `AssertionError` if the run has not ended; the message says why.
        """
        await self.settle()
        if not (await run.status()).ended:
            raise AssertionError(await assertions.describe(run, "has no result yet"))
        return await run.result()

    async def _travel(self, target: int) -> None:
        await self._driver.travel(target)

    # Signals.

    async def signal(self, run: Run[Any], name: str, payload: Any = None, **options: Any) -> None:
        """Settle, send a signal to the run, and settle again. Options are those of `Run.signal`."""
        await self.settle()
        await run.signal(name, payload, **options)
        await self.settle()

    async def approve(self, run: Run[Any], payload: Any = None, **options: Any) -> None:
        """Approve what the run waits for, and settle: `await lab.approve(run, by="ada")`."""
        await self.settle()
        await run.approve(payload, **options)
        await self.settle()

    async def reject(self, run: Run[Any], payload: Any = None, **options: Any) -> None:
        """Reject what the run waits for, and settle."""
        await self.settle()
        await run.reject(payload, **options)
        await self.settle()

    async def visit(self, link: str, signal: str = "", *, comment: str = "", by: str = "") -> None:
        """Answer on the page of a link of `Context.approval_link`, and settle.

        `signal` is one of those that the link offers, by default the first. Raises if the link has expired or the wait
        is over.
        """
        await self.settle()
        found = approval_links.parse_link(link)
        chosen = signal or found.signal_names[0]
        if chosen not in found.signal_names:
            raise AssertionError(f"the link offers {', '.join(found.signal_names)}, not {chosen!r}")
        if self.clock.ms >= found.expires_at:
            raise AssertionError(f"the link for {chosen!r} has expired: give it a longer life")
        run: Run[Any] = self.app.run(found.execution_id)
        payload = {"comment": comment} if comment else None
        who = found.source_identity or by
        await run.signal(chosen, payload, waitpoint=found.waitpoint_id, by=who, key=found.link_id or link)
        await self.settle()

    async def expire(self, run: Run[Any]) -> None:
        """Advance the clock until the wait of the run times out; a sleep is a wait, too."""
        await self.settle()
        wait = await self.store.read(GetSuspension(execution_id=run.id))
        if wait is None or wait.closed_at:
            raise AssertionError(await assertions.describe(run, "waits for nothing that could expire"))
        if not wait.timeout_at:
            raise AssertionError(await assertions.describe(run, "waits without a timeout: give its wait one"))
        await self._travel(wait.timeout_at)

    # Crashes.

    def crash_before(self, step: str, run: Run[Any] | None = None) -> Crash:
        """Crash the worker right before the function of a step is called; otherwise as `crash_after`.

        Not for handlers in separate processes, whose functions are called there.
        """
        return self._plan("before", step, run)

    def crash_during(self, step: str, run: Run[Any] | None = None) -> Crash:
        """Crash the worker after the function of a step has run and before its result is stored: it will run again.

        Otherwise as `crash_after`.
        """
        return self._plan("during", step, run)

    def crash_after(self, step: str, run: Run[Any] | None = None) -> Crash:
        """Crash the worker right after the result of a step is stored, as `kill -9` would.

        ::

            lab.crash_after("draft")
            run = await lab.submit(review, "text")

        Its lease stays behind; once that has expired, another worker continues. Without a run, the first one that
        reaches the step crashes. A planned crash that never happens fails the test at the end of the lab, or at the end
        of the block of `with lab.crash_after("draft"):`.
        """
        return self._plan("after", step, run)

    def crash(self) -> None:
        """Crash every worker now, whatever it is doing; others continue once their leases have expired."""
        for worker in self._driver.alive:
            worker.store.crash()

    def _plan(self, moment: Moment, step: str, run: Run[Any] | None) -> Crash:
        crash = Crash(moment, step, run.id if run is not None else "")
        self._crashes.append(crash)
        return crash

    # Inspecting.

    async def steps(self, run: Run[Any], *, waits: bool = False) -> list[str]:
        """Return the names of the stored steps of a run in order; with `waits` also waits, sleeps and children."""
        return await assertions.steps(self.store, run, waits=waits)

    async def frames(self, run: Run[Any], type_: str = "") -> list[Frame]:
        """Return the frames of the last attempt, of one type or all, except superseded ones."""
        return await assertions.frames(self.store, run, type_)

    async def assert_state(self, run: Run[Any], state: str) -> None:
        """Settle, and check the state of a run: `completed`, `suspended`, …; `gone` if it is no longer kept."""
        await self.settle()
        await assertions.assert_state(run, state)

    async def assert_steps(self, run: Run[Any], names: Sequence[str], *, waits: bool = False) -> None:
        """Settle, and check which steps a run has stored, in order; see `steps`."""
        await self.settle()
        await assertions.assert_same(run, "steps", list(names), await self.steps(run, waits=waits))

    async def assert_frames(self, run: Run[Any], payloads: Iterable[Any], type_: str = "") -> None:
        """Settle, and check what the last attempt emitted: text as text, values as values, bytes as bytes."""
        await self.settle()
        found = [assertions.payload_of(frame) for frame in await self.frames(run, type_)]
        await assertions.assert_same(run, "frames", list(payloads), found)


def _middle() -> float:
    """Return 0.5, so that jitter is always the same in a lab."""
    return 0.5
