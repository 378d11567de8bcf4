"""The lab: an app on a store of its own, with workers, timers and a clock that a test controls."""

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
from flowfabric.model.contracts.reads import GetSuspension
from flowfabric.model.contracts.upkeep import SeedSecret
from flowfabric.model.errors import invalid
from flowfabric.model.tokens import SEED_SECRET_LENGTH
from flowfabric.storage import open_store
from flowfabric.storage.base import Upkeep
from flowfabric.storage.memory import MemoryStore
from flowfabric.storage.seeding import FIRST_KID
from flowfabric.testing import approval_links, assertions
from flowfabric.testing.clock import START, Clock
from flowfabric.testing.driver import LabDriver
from flowfabric.testing.lab_worker import LabWorker
from flowfabric.testing.worker_store import ChangeSignal, Crash, Moment, ObservedStore

R = TypeVar("R")
PATIENCE_SECONDS: Final = 10.0
_APPS_IN_LABS: Final[WeakSet[FlowFabric]] = WeakSet()


class Lab(SubmitMethods):
    """An app under test, through its real code: machine, timers, workers; only the time is made up.

    ::

        async with Lab(app) as lab:
            run = await lab.submit(remind, "ada@example.org")
            await lab.clock.advance("1d")
            await lab.assert_state(run, "completed")

    Inside, everything that the app does goes to a store in memory, or to the one that a URL names; afterwards the app
    has its own again. Work runs by itself as soon as it can; `settle` waits until nothing more can happen at this time,
    and gives up after `patience`. `start` is the time at which the clock begins. `worker` are options of
    `FlowFabric.worker`, such as lanes and capabilities.
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
        """The time: `await lab.clock.advance("1d")`."""
        self.store: Upkeep
        """The store itself, for what is not offered here."""
        self._url = store
        self._patience = seconds(patience, "patience")
        self._worker = worker
        self._crashes: list[Crash] = []
        self._stack = AsyncExitStack()
        self._rounds: LabDriver

    async def __aenter__(self) -> Self:
        if self.app in _APPS_IN_LABS:
            raise AssertionError("the app is in a lab already: leave that one first, or give each lab an app")
        async with AsyncExitStack() as stack:
            self.store = await self._open()
            stack.push_async_callback(self.store.close)
            pulse = ChangeSignal()
            stack.enter_context(self.app.using(ObservedStore(self.store, pulse)))
            _APPS_IN_LABS.add(self.app)
            stack.callback(_APPS_IN_LABS.discard, self.app)

            async def hire() -> LabWorker:
                hand = LabWorker(self.app, self.store, pulse, self._crashes, self._worker)
                await hand.start()
                return hand

            self._rounds = LabDriver(self.store, self.clock, pulse, hire, self._patience)
            await self._rounds.start()
            stack.push_async_callback(self._rounds.stop)
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

    # Submitting: as the app does, with the same types.

    def _call(
        self, task: Callable[..., Any] | str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Call[Any]:
        return self.app.call(task, *args, **kwargs)

    async def _submit(self, call: Call[R]) -> Run[R]:
        return await self.app.submit(call)

    async def _submit_many(self, calls: list[Call[R]]) -> list[Run[R]]:
        return await self.app.submit_many(calls)

    # Going on.

    async def settle(self) -> None:
        """Wait until nothing runs and nothing more can happen at this time; raises `StillRunning` if that never comes.

        After a crash the clock moves on by itself until the lease of the dead worker has run out.
        """
        await self._rounds.settle()

    async def begun(self, run: Run[Any]) -> None:
        """Wait until the handler of a run works, for one that does not return by itself: then `advance`.

        ::

            run = await lab.submit(download, "http://a")
            await lab.begun(run)
            await lab.clock.advance("1m")          # its timeout
        """
        await self._rounds.begun(run.id)

    async def result(self, run: Run[R]) -> R:
        """Settle, and return the result of a run.

        Raises what `Run.result` does, and `AssertionError` when the run has not ended: the text says what it waits for.
        """
        await self.settle()
        if not (await run.status()).ended:
            raise AssertionError(await assertions.told(run, "has no result yet"))
        return await run.result()

    async def _travel(self, target: int) -> None:
        await self._rounds.travel(target)

    # People.

    async def signal(self, run: Run[Any], name: str, payload: Any = None, **options: Any) -> None:
        """Send a signal as soon as the run waits for it, and settle. Options are those of `Run.signal`."""
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
        """Do what somebody does who opens a link of `Context.approval_link` and answers, and settle.

        `signal` is one of those that the link offers, the first by default. A visit that comes too late, or when the
        wait is over, is refused.
        """
        await self.settle()
        found = approval_links.read(link)
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
        """Let the time of the run's wait pass, to the moment at which it is over; sleeping is a wait, too."""
        await self.settle()
        wait = await self.store.read(GetSuspension(execution_id=run.id))
        if wait is None or wait.closed_at:
            raise AssertionError(await assertions.told(run, "waits for nothing that could expire"))
        if not wait.timeout_at:
            raise AssertionError(await assertions.told(run, "waits without a timeout: give its wait one"))
        await self._travel(wait.timeout_at)

    # Accidents.

    def crash_before(self, step: str, run: Run[Any] | None = None) -> Crash:
        """Let the worker die right before the function of a step is called; otherwise as `crash_after`.

        Not for handlers in processes of their own, whose functions are called elsewhere.
        """
        return self._plan("before", step, run)

    def crash_during(self, step: str, run: Run[Any] | None = None) -> Crash:
        """Let the worker die when the function of a step has run and its result is not stored: it will run again.

        Otherwise as `crash_after`.
        """
        return self._plan("during", step, run)

    def crash_after(self, step: str, run: Run[Any] | None = None) -> Crash:
        """Let the worker die right after the result of a step is stored, as `kill -9` would.

        ::

            lab.crash_after("draft")
            run = await lab.submit(review, "text")

        Its lease stays behind; when that has run out, another worker goes on. Without a run, the first that comes to
        the step is struck. A crash that never happens fails the test; after `with lab.crash_after("draft"):` it must
        have happened when the block ends.
        """
        return self._plan("after", step, run)

    def crash(self) -> None:
        """Let every worker die now, whatever it is doing; others go on when their leases have run out."""
        for hand in self._rounds.alive:
            hand.life.die()

    def _plan(self, moment: Moment, step: str, run: Run[Any] | None) -> Crash:
        crash = Crash(moment, step, run.id if run is not None else "")
        self._crashes.append(crash)
        return crash

    # Looking.

    async def steps(self, run: Run[Any], *, waits: bool = False) -> list[str]:
        """Name the stored steps of a run in the order of their calls; with `waits` also waits, sleeps and children."""
        return await assertions.steps(self.store, run, waits=waits)

    async def frames(self, run: Run[Any], type_: str = "") -> list[Frame]:
        """Return the frames of the last attempt, of one type or all, without those that are superseded."""
        return await assertions.frames(self.store, run, type_)

    async def assert_state(self, run: Run[Any], state: str) -> None:
        """Settle, and check where a run stands: `completed`, `suspended`, …; `gone` when it is kept no longer."""
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
    """The draw of every lab: jitter is the middle of its range."""
    return 0.5
