"""One worker of a lab: it takes work when it is offered, and dies as `kill -9` would let it.

After its death nothing of it reaches the store any more: its lease stays behind, and its handlers stand still where
they are, so that not even their `finally` runs. They are let go when the lab ends.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, TypeVar

from msgspec.structs import replace

from flowfabric.engine import tail_when_ready, wait_until_ended
from flowfabric.model.contracts.access import ApprovalLink, LinkRequest
from flowfabric.model.contracts.base import Command
from flowfabric.model.contracts.lease import Claim, Claimed, Renew
from flowfabric.model.contracts.reads import Question, ReadToken, StreamPage, TailStream
from flowfabric.model.contracts.streams import PutStep
from flowfabric.model.errors import FlowFabricError, StoreClosed, from_code
from flowfabric.model.ids import Partitions
from flowfabric.model.records import Execution
from flowfabric.storage.base import StoreTraits, Subscription, Upkeep
from flowfabric.testing.approval_links import written
from flowfabric.testing.step_timers import StepTimers
from flowfabric.worker.context.hooks import CONTEXT_HOOKS, ContextHooks
from flowfabric.worker.faults import LeaseLost
from flowfabric.worker.layers import Layer

R = TypeVar("R")
LAST_SECONDS: Final = 5.0
Moment = Literal["before", "during", "after"]


class ChangeSignal:
    """Wakes whoever waits for any change since a number that was read before."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = asyncio.Event()

    def beat(self) -> None:
        """Something has changed."""
        self.count += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def after(self, count: int) -> None:
        """Wait until something has changed since then."""
        while self.count == count:
            await self._changed.wait()


class ObservedStore:
    """The store as programs under test see it: what they do is noticed."""

    def __init__(self, store: Upkeep, pulse: ChangeSignal) -> None:
        self._store = store
        self._pulse = pulse

    @property
    def partitions(self) -> Partitions:
        """How ids are spread."""
        return self._store.partitions

    @property
    def traits(self) -> StoreTraits:
        """What the store can do; the lab runs the engine."""
        return StoreTraits(is_direct=False)

    def now(self) -> int:
        """Return the time of the lab."""
        return self._store.now()

    async def apply(self, command: Command[R]) -> R:
        """Decide one command."""
        try:
            return await self._store.apply(command)
        finally:
            self._pulse.beat()

    async def apply_many(self, commands: Sequence[Command[R]]) -> list[R | FlowFabricError]:
        """Decide several commands."""
        try:
            return await self._store.apply_many(commands)
        finally:
            if not all(isinstance(command, Renew) for command in commands):
                self._pulse.beat()

    async def read(self, question: Question[R]) -> R:
        """Answer a question."""
        return await self._store.read(question)

    def subscribe(self, topics: Iterable[str]) -> AbstractAsyncContextManager[Subscription]:
        """Listen to topics."""
        return self._store.subscribe(topics)

    async def close(self) -> None:
        """It is the lab's to close."""


@dataclass
class Crash:
    """A death that was asked for: at a moment of a step, of any run or of one.

    As a context manager it must have happened when the block ends: `with lab.crash_after("draft"): …`.
    """

    moment: Moment
    step: str
    execution_id: str
    happened: bool = False

    def __str__(self) -> str:
        return f"crash_{self.moment}({self.step!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and not self.happened:
            raise AssertionError(
                f"{self} has not happened in its block: submit and settle inside it, and name the step as the "
                "handler does"
            )


class WorkerStore(ObservedStore):
    """The store as one worker sees it while it lives."""

    def __init__(self, store: Upkeep, pulse: ChangeSignal, crashes: Sequence[Crash]) -> None:
        super().__init__(store, pulse)
        self.agenda = StepTimers(pulse.beat)
        self.instance_id = ""
        self.parked = False
        """Whether the worker waits for an offer."""
        self.dead = False
        self._crashes = crashes
        self._offers: asyncio.Queue[asyncio.Future[int]] = asyncio.Queue()
        self._over = False
        self._frozen: list[asyncio.Future[None]] = []
        self._threads: list[Future[None]] = []

    @property
    def traits(self) -> StoreTraits:
        """What the store can do; the lab waits for work and answers links."""
        return StoreTraits(is_direct=False, waits_remotely=True, makes_links=True)

    # Working.

    async def offer(self) -> int:
        """Let the worker take what there is, when it has room; return how many tasks it took."""
        if not self.parked or self.dead:
            return 0
        taken: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._offers.put_nowait(taken)
        return await taken

    async def claim_within(self, claim: Claim, wait_ms: int) -> Claimed:  # noqa: ARG002 - the lab decides how long
        """Claim whenever the lab offers something."""
        self._check()
        self.instance_id = claim.worker_instance_id
        self._pulse.beat()
        while True:
            self.parked = True
            taken = await self._offers.get()
            self.parked = False
            try:
                self._check()
                claimed = await self._store.apply(claim)  # one that finds nothing is no change
            except BaseException as error:
                if self.dead:
                    taken.set_result(0)
                else:
                    taken.set_exception(error)
                raise
            taken.set_result(len(claimed.tasks))
            if claimed.tasks:
                return claimed

    async def tail_within(self, question: TailStream, wait_ms: int) -> StreamPage:
        """Read what follows a cursor; when there is nothing, wait for something."""
        return await tail_when_ready(self._store, question, wait_ms)

    async def end_within(self, execution_id: str, wait_ms: int) -> Execution:
        """Wait for an end."""
        return await wait_until_ended(self._store, execution_id, wait_ms)

    async def make_link(self, link: LinkRequest) -> ApprovalLink:
        """Make a link that a test visits, as a server makes one of its pages."""
        token = await self.read(ReadToken(execution_id=link.execution_id, waitpoint_id=link.waitpoint_id))
        if token is None and not link.link_id:
            raise from_code("waitpoint_not_found")
        until = link.expires_at or self._store.now() + link.expires_in_ms
        return ApprovalLink(written(replace(link, expires_at=until, expires_in_ms=0)), until)

    async def apply(self, command: Command[R]) -> R:
        """Decide one command, unless the worker is dead."""
        self._check()
        return await super().apply(command)

    async def apply_many(self, commands: Sequence[Command[R]]) -> list[R | FlowFabricError]:
        """Decide several commands; death comes between two of them."""
        self._check()
        replies: list[R | FlowFabricError] = []
        ready: list[Command[R]] = []
        for command in commands:
            if self._strikes("during", command):
                await self._send(ready, replies)
                self.die()
                raise StoreClosed
            ready.append(command)
            if crash := self._planned("after", command):
                await self._send(ready, replies)
                if not isinstance(replies[-1], FlowFabricError):
                    crash.happened = True
                    self.die()
                    raise StoreClosed
        await self._send(ready, replies)
        return replies

    async def _send(self, ready: list[Command[R]], replies: list[R | FlowFabricError]) -> None:
        if ready:
            replies += await super().apply_many(list(ready))
            ready.clear()

    async def read(self, question: Question[R]) -> R:
        """Answer a question, unless the worker is dead."""
        self._check()
        return await super().read(question)

    def _check(self) -> None:
        if self.dead:
            raise StoreClosed

    # Dying.

    def die(self) -> None:
        """Be gone, this instant."""
        self.dead = True
        self._pulse.beat()

    def dies_before(self, execution_id: str, step: str) -> bool:
        """Die if a crash is planned before this step; return whether it happened."""
        for crash in self._crashes:
            if not crash.happened and crash.moment == "before" and _fits(crash, execution_id, step):
                crash.happened = True
                self.die()
                return True
        return False

    def _strikes(self, moment: Moment, command: Command[Any]) -> bool:
        crash = self._planned(moment, command)
        if crash is not None:
            crash.happened = True
        return crash is not None

    def _planned(self, moment: Moment, command: Command[Any]) -> Crash | None:
        if not isinstance(command, PutStep):
            return None
        return next(
            (
                crash
                for crash in self._crashes
                if not crash.happened
                and crash.moment == moment
                and _fits(crash, command.execution_id, command.step_name)
            ),
            None,
        )

    async def let_go(self) -> None:
        """Cancel what stands still, and wait for threads in which it stood; called when the lab ends."""
        self._over = True
        for each in self._frozen:
            if not each.done():
                each.set_result(None)
        threads = [asyncio.wrap_future(thread) for thread in self._threads if self.dead]
        if threads:
            await asyncio.wait(threads, timeout=LAST_SECONDS)

    @contextmanager
    def in_thread(self) -> Iterator[None]:
        """Note that a handler runs in a thread, which only its own code can end."""
        thread: Future[None] = Future()
        self._threads.append(thread)
        try:
            yield
        finally:
            thread.set_result(None)

    @types.coroutine
    def mortal(self, work: Coroutine[Any, Any, R]) -> Generator[Any, Any, R]:
        """Await something of a handler, until the death of its worker: from then on it stands still."""
        error: BaseException | None = None
        while True:
            if self.dead:
                error = yield from self._stand_still()
            try:
                waited = work.send(None) if error is None else work.throw(error)
            except StopIteration as ended:
                return ended.value  # type: ignore[no-any-return]
            try:
                yield waited
                error = None
            except BaseException as other:  # noqa: BLE001 - it belongs to the coroutine
                error = other

    def _stand_still(self) -> Generator[Any, Any, BaseException]:
        while not self._over:
            forever: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._frozen.append(forever)
            try:
                yield from forever
            except asyncio.CancelledError:  # the dead hear nothing
                continue
        return LeaseLost("the worker was killed")


def _fits(crash: Crash, execution_id: str, step: str) -> bool:
    return crash.step == step and crash.execution_id in {"", execution_id}


class RunningHandlers(Layer):
    """Knows which handlers of a worker run."""

    def __init__(self, pulse: ChangeSignal, hooks: ContextHooks) -> None:
        self._pulse = pulse
        self._hooks = hooks
        self.running: dict[str, str] = {}
        """Kinds by execution."""

    async def handle(self, kind: str, execution_id: str, run: Callable[[], Awaitable[Any]]) -> Any:
        """Note that a handler runs while it does."""
        self.running[execution_id] = kind
        self._pulse.beat()
        outer = CONTEXT_HOOKS.set(self._hooks)
        try:
            return await run()
        finally:
            CONTEXT_HOOKS.reset(outer)
            del self.running[execution_id]
            self._pulse.beat()
