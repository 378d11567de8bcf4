"""Keeping leases from a thread of its own, so that a blocked event loop does not cost them.

The thread has its own event loop and, where a store needs one, its own connection. All leases that are due are renewed
in one call, three times in the life of a lease. Where nobody knows whether a renewal was done, because the store could
not be asked, failed for some of many, or does not answer, it is asked for again every second (more often for short
leases) until it is decided or the time of the lease is over. The thread also watches the loop that runs the handlers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from flowfabric.model.contracts.base import Command
from flowfabric.model.errors import FlowFabricError, InternalError, Unreachable, refuse
from flowfabric.worker.execution.watchdog import LoopWatchdog
from flowfabric.worker.faults import is_loss
from flowfabric.worker.leases.held_lease import HeldLease

log = logging.getLogger("flowfabric.worker")

R = TypeVar("R")

CHUNK: Final = 256
"""Renewals in one call."""
LOOK_SECONDS: Final = 1.0
"""How often the thread looks around; for short leases it is a twelfth of their life."""


class RenewalStore(Protocol):
    """What the thread needs of a store."""

    async def apply_many(self, commands: Sequence[Command[R]]) -> list[R | FlowFabricError]:
        """Decide several commands, each on its own."""

    async def close(self) -> None:
        """Let everything go."""


class LoopBoundStore:
    """A store that lives in the loop of the handlers and has no address: better than nothing, but blocked with it."""

    def __init__(self, store: RenewalStore, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._loop = loop

    async def apply_many(self, commands: Sequence[Command[R]]) -> list[R | FlowFabricError]:
        """Let the other loop do it."""
        call = self._store.apply_many(commands)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._loop))

    async def close(self) -> None:
        """It is closed by its owner."""


class Renewer:
    """Renews the leases of one worker. `connect` opens the connection inside the thread; none: the store is shared."""

    def __init__(
        self,
        store: RenewalStore,
        ttl_ms: int,
        connect: Callable[[], Awaitable[RenewalStore]] | None = None,
        watch: LoopWatchdog | None = None,
    ) -> None:
        self._store = store
        self._connect = connect
        self._ttl = ttl_ms / 1000
        self._interval = self._ttl / 3
        self._watch = watch
        self._holds: dict[str, HeldLease] = {}
        self._handlers_loop = asyncio.get_running_loop()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._own: RenewalStore | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._work, name="flowfabric-renewal", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()
        self._started.wait()

    def add(self, hold: HeldLease) -> None:
        """Keep a lease from now on."""
        self._holds[hold.fence.lease_id] = hold

    def drop(self, hold: HeldLease) -> None:
        """Keep it no longer."""
        self._holds.pop(hold.fence.lease_id, None)

    async def renew_now(self) -> None:
        """Renew every lease without the thread: one may be gone, or a clock has jumped. What is refused is lost.

        What cannot be decided now is left to the thread, which asks again; it does not count as a failed renewal.
        """
        holds = self._kept()
        for start in range(0, len(holds), CHUNK):
            part = holds[start : start + CHUNK]
            try:
                async with asyncio.timeout(self._interval):
                    await self._renew(self._shared, part)
            except TimeoutError:
                for hold in part:
                    hold.doubt = Unreachable()

    async def close(self) -> None:
        """End the thread and its connection."""
        if self._loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._stop.set)
        await asyncio.to_thread(self._thread.join)

    def _kept(self) -> list[HeldLease]:
        return [hold for hold in list(self._holds.values()) if hold.loss is None]

    # In the thread.

    def _work(self) -> None:
        try:
            asyncio.run(self._run())
        except Exception:
            log.exception("renewal has stopped: leases of this worker will expire; restart it")
        finally:
            self._started.set()

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._started.set()
        look = min(self._interval / 4, LOOK_SECONDS)
        due = time.monotonic() + self._interval
        try:
            while not self._stop.is_set() and not self._handlers_loop.is_closed():
                wake = min(due, time.monotonic() + look)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), max(0.0, wake - time.monotonic()))
                    break
                now = time.monotonic()
                if self._watch is not None and self._holds:
                    self._watch.look(now - wake, self._ttl)
                if now >= due:
                    due = now + self._interval
                    self._begin(self._due(now))
                else:
                    self._begin(self._doubtful(now))
        finally:
            for call in self._calls:
                call.cancel()
            await asyncio.gather(*self._calls, return_exceptions=True)
            if self._own is not None and self._connect is not None:
                await self._own.close()

    def _due(self, now: float) -> list[HeldLease]:
        """Name the leases that a later turn might not save; younger ones can wait for it, unless in doubt."""
        old = [hold for hold in self._kept() if now - hold.since > self._ttl / 6]
        for hold in old:
            hold.counts = True
        return [*self._doubtful(now), *(hold for hold in old if hold.doubt is None and not hold.asked)]

    def _doubtful(self, now: float) -> list[HeldLease]:
        """Name those to ask for again: the store could not decide them, or has not answered for a third of a life.

        A lease whose time is over meanwhile is lost. One whose answer is late is judged at the next look: this thread
        may have been kept from running, and the answer may be here already.
        """
        for hold in self._kept():
            if hold.asked:
                if now - hold.asked >= self._interval:
                    hold.asked, hold.doubt = 0.0, Unreachable()
                    hold.failures += 1
            elif hold.doubt is not None and now >= hold.expires:
                hold.failures += 1
                text = f"it could not be renewed in time: {hold.doubt}"
                self._lose(hold, refuse("lease_expired", text=text))
        kept = [hold for hold in self._kept() if hold.doubt is not None]
        return [hold for hold in kept if not hold.asked and now < hold.expires]

    def _begin(self, holds: Sequence[HeldLease]) -> None:
        """Ask for renewals without waiting for them: one call that hangs must not keep the others from being asked."""
        now = time.monotonic()
        for hold in holds:
            hold.asked = now
        for start in range(0, len(holds), CHUNK):
            call = asyncio.create_task(self._call(holds[start : start + CHUNK], now))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)

    async def _call(self, holds: Sequence[HeldLease], now: float) -> None:
        # After a whole life there is nothing left that an answer could save.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._ttl):
                await self._renew(self._connected, holds)
        # Those whose answer was late have been asked for again meanwhile.
        answered = [hold for hold in holds if hold.asked == now]
        for hold in answered:
            hold.asked = 0.0
        failed = [hold for hold in answered if hold.doubt is not None and hold.loss is None and hold.counts]
        for hold in failed:
            hold.failures, hold.counts = hold.failures + 1, False
        if failed:
            log.warning("renewal of %d leases failed, tried again: %s", len(failed), failed[-1].doubt)

    async def _connected(self) -> RenewalStore:
        """Return the connection of this thread; one that cannot be opened is tried again with the next call."""
        if self._own is None:
            opened = self._store if self._connect is None else await self._connect()
            if self._own is None:
                self._own = opened
            else:  # another call was faster
                await opened.close()
        return self._own

    # In either thread.

    async def _shared(self) -> RenewalStore:
        return self._store

    async def _renew(
        self, connected: Callable[[], Awaitable[RenewalStore]], holds: Sequence[HeldLease]
    ) -> None:
        """Renew them in one call. What the store refuses is lost; what it could not decide is in doubt."""
        asked = time.monotonic()
        try:
            store = await connected()
            replies: list[Any] = await store.apply_many([hold.renewal() for hold in holds])
        except FlowFabricError as error:
            replies = [error] * len(holds)
        except Exception as error:
            # A layer of the user's, or a defect: the leases are held all the same, and so they are kept.
            log.exception("renewing failed in an unexpected way, and is tried again")
            replies = [InternalError(f"{type(error).__name__}: {error}")] * len(holds)
        for hold, reply in zip(holds, replies, strict=True):
            if not isinstance(reply, FlowFabricError):
                hold.renewed(asked)
            elif hold.fence.lease_id not in self._holds:
                continue  # what was ended meanwhile is refused, and nobody minds
            elif is_loss(reply):
                hold.failures += 1
                self._lose(hold, reply)
            else:
                hold.doubt = reply

    def _lose(self, hold: HeldLease, error: FlowFabricError) -> None:
        self.drop(hold)
        with contextlib.suppress(RuntimeError):  # the loop of the handlers has ended
            self._handlers_loop.call_soon_threadsafe(hold.lose, error)
