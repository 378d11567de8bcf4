"""The store of one worker of a lab, which offers it work and can crash it as `kill -9` would.

After the crash nothing of the worker reaches the store: its lease stays behind, and its handlers freeze where they are,
so that not even their `finally` runs. They are released when the lab ends.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from flowfabric.engine import tail_when_ready, wait_until_ended
from flowfabric.model.command import Command, Question
from flowfabric.model.errors import FlowFabricError, StoreClosed, from_code
from flowfabric.model.operations.access import ApprovalLink, LinkRequest
from flowfabric.model.operations.claim import Claim, Claimed
from flowfabric.model.operations.step import PutStep
from flowfabric.model.operations.stream import StreamPage, TailStream
from flowfabric.model.operations.suspend_waitpoint import ReadToken
from flowfabric.model.records import Execution
from flowfabric.storage.base import StoreTraits, Upkeep
from flowfabric.testing.approval_links import link_url
from flowfabric.testing.crash import Crash, Moment
from flowfabric.testing.observed_store import ChangeSignal, ObservedStore
from flowfabric.testing.step_timers import StepTimers
from flowfabric.worker.faults import LeaseLost

R = TypeVar("R")
LAST_SECONDS: Final = 5.0


class WorkerStore(ObservedStore):
    """The store as one worker sees it until it crashes."""

    def __init__(self, store: Upkeep, changes: ChangeSignal, crashes: Sequence[Crash]) -> None:
        super().__init__(store, changes)
        self.step_timers = StepTimers(changes.notify)
        self.instance_id = ""
        self.is_idle = False
        """Whether the worker waits for an offer of work."""
        self.has_crashed = False
        self._crashes = crashes
        self._offers: asyncio.Queue[asyncio.Future[int]] = asyncio.Queue()
        self._is_released = False
        self._frozen: list[asyncio.Future[None]] = []
        self._threads: list[Future[None]] = []

    @property
    def traits(self) -> StoreTraits:
        """What the store can do. The lab offers work and makes links."""
        return StoreTraits(is_direct=False, waits_remotely=True, makes_links=True)

    # Working.

    async def offer(self) -> int:
        """Let the worker claim, if it has room; return how many tasks it claimed."""
        if not self.is_idle or self.has_crashed:
            return 0
        taken: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._offers.put_nowait(taken)
        return await taken

    async def claim_within(self, claim: Claim, wait_ms: int) -> Claimed:  # noqa: ARG002 - the lab decides how long
        """Claim whenever the lab offers work."""
        self._check()
        self.instance_id = claim.worker_instance_id
        self._changes.notify()
        while True:
            self.is_idle = True
            taken = await self._offers.get()
            self.is_idle = False
            try:
                self._check()
                claimed = await self._store.apply(
                    claim
                )  # not reported: a claim that finds nothing changes nothing
            except BaseException as error:
                if self.has_crashed:
                    taken.set_result(0)
                else:
                    taken.set_exception(error)
                raise
            taken.set_result(len(claimed.tasks))
            if claimed.tasks:
                return claimed

    async def tail_within(self, question: TailStream, wait_ms: int) -> StreamPage:
        """Read the frames after a cursor, and wait for one if there are none."""
        return await tail_when_ready(self._store, question, wait_ms)

    async def end_within(self, execution_id: str, wait_ms: int) -> Execution:
        """Return the execution once it has ended, or as it is after `wait_ms`."""
        return await wait_until_ended(self._store, execution_id, wait_ms)

    async def make_link(self, link: LinkRequest) -> ApprovalLink:
        """Make a link for `Lab.visit`, as a server makes one to its pages."""
        token = await self.read(ReadToken(execution_id=link.execution_id, waitpoint_id=link.waitpoint_id))
        if token is None and not link.link_id:
            raise from_code("waitpoint_not_found")
        until = link.expires_at or self._store.now() + link.expires_in_ms
        return ApprovalLink(link_url(replace(link, expires_at=until, expires_in_ms=0)), until)

    async def apply(self, command: Command[R]) -> R:
        """Decide one command, unless the worker has crashed."""
        self._check()
        return await super().apply(command)

    async def apply_many(self, commands: Sequence[Command[R]]) -> list[R | FlowFabricError]:
        """Decide several commands; a planned crash happens between two of them."""
        self._check()
        replies: list[R | FlowFabricError] = []
        ready: list[Command[R]] = []
        for command in commands:
            if crash := self._planned_put("during", command):
                crash.happened = True
                await self._send(ready, replies)
                self.crash()
                raise StoreClosed
            ready.append(command)
            if crash := self._planned_put("after", command):
                await self._send(ready, replies)
                if not isinstance(replies[-1], FlowFabricError):
                    crash.happened = True
                    self.crash()
                    raise StoreClosed
        await self._send(ready, replies)
        return replies

    async def _send(self, ready: list[Command[R]], replies: list[R | FlowFabricError]) -> None:
        if ready:
            replies += await super().apply_many(list(ready))
            ready.clear()

    async def read(self, question: Question[R]) -> R:
        """Answer a question, unless the worker has crashed."""
        self._check()
        return await super().read(question)

    def _check(self) -> None:
        if self.has_crashed:
            raise StoreClosed

    # Crashing.

    def crash(self) -> None:
        """Crash now: nothing of this worker reaches the store any more."""
        self.has_crashed = True
        self._changes.notify()

    def crashes_before(self, execution_id: str, step: str) -> bool:
        """Crash if that is planned before this step; return whether it happened."""
        planned = self._planned("before", execution_id, step)
        if planned is not None:
            planned.happened = True
            self.crash()
        return planned is not None

    def _planned_put(self, moment: Moment, command: Command[Any]) -> Crash | None:
        if not isinstance(command, PutStep):
            return None
        return self._planned(moment, command.execution_id, command.step_name)

    def _planned(self, moment: Moment, execution_id: str, step: str) -> Crash | None:
        return next((crash for crash in self._crashes if crash.fits(moment, execution_id, step)), None)

    async def release(self) -> None:
        """Let frozen code end, and wait for its threads; called when the lab ends."""
        self._is_released = True
        for each in self._frozen:
            if not each.done():
                each.set_result(None)
        threads = [asyncio.wrap_future(thread) for thread in self._threads if self.has_crashed]
        if threads:
            await asyncio.wait(threads, timeout=LAST_SECONDS)

    @contextmanager
    def in_thread(self) -> Iterator[None]:
        """Register a handler in a thread, which only its own code can end."""
        thread: Future[None] = Future()
        self._threads.append(thread)
        try:
            yield
        finally:
            thread.set_result(None)

    @types.coroutine
    def until_crash(self, work: Coroutine[Any, Any, R]) -> Generator[Any, Any, R]:
        """Await a coroutine of a handler; freeze it when the worker crashes."""
        error: BaseException | None = None
        while True:
            if self.has_crashed:
                error = yield from self._freeze()
            try:
                waited = work.send(None) if error is None else work.throw(error)
            except StopIteration as ended:
                return ended.value  # type: ignore[no-any-return]
            try:
                yield waited
                error = None
            except BaseException as other:  # noqa: BLE001 - it belongs to the coroutine
                error = other

    def _freeze(self) -> Generator[Any, Any, BaseException]:
        while not self._is_released:
            forever: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._frozen.append(forever)
            try:
                yield from forever
            except asyncio.CancelledError:  # a crashed worker reacts to nothing
                continue
        return LeaseLost("the worker was killed")
