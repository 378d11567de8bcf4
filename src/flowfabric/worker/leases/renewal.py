"""Renewing leases from a separate thread, so that a blocked event loop does not lose them.

The thread has its own event loop and, unless the store is thread-safe, its own connection. All due leases are renewed
in one call, three times per TTL. If the result of a renewal is unknown, because the store is unreachable, failed for
some of the leases, or does not answer, the renewal is retried every second (more often for short leases) until it is
decided or the lease has expired. The thread also watches the event loop of the handlers for blocking calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from flowfabric.model.command import Command
from flowfabric.model.errors import FlowFabricError, InternalError, Unreachable, refuse
from flowfabric.worker.execution.watchdog import LoopWatchdog
from flowfabric.worker.faults import is_loss
from flowfabric.worker.leases.worker_lease import WorkerLease

log = logging.getLogger("flowfabric.worker")

R = TypeVar("R")

CHUNK: Final = 256
"""The most renewals in one call."""
LOOK_SECONDS: Final = 1.0
"""How often the thread wakes; for short leases, a twelfth of the TTL."""


class RenewalStore(Protocol):
    """The methods of a store that the thread needs."""

    async def apply_many(self, commands: Sequence[Command[R]]) -> list[R | FlowFabricError]:
        """Decide several commands, each on its own."""

    async def close(self) -> None:
        """Close the connection."""


class LoopBoundStore:
    """A store without a URL, which can only be used on the event loop of the handlers, and is blocked with it."""

    def __init__(self, store: RenewalStore, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._loop = loop

    async def apply_many(self, commands: Sequence[Command[R]]) -> list[R | FlowFabricError]:
        """Run the call on the event loop of the handlers, and wait for its answers."""
        call = self._store.apply_many(commands)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._loop))

    async def close(self) -> None:
        """Do nothing: the owner closes the store."""


class Renewer:
    """Renews the leases of one worker. `connect` opens the connection of the thread; None to share the store."""

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
        self._holds: dict[str, WorkerLease] = {}
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

    def add(self, hold: WorkerLease) -> None:
        """Renew a lease from now on."""
        self._holds[hold.fence.lease_id] = hold

    def drop(self, hold: WorkerLease) -> None:
        """Stop renewing a lease."""
        self._holds.pop(hold.fence.lease_id, None)

    async def renew_now(self) -> None:
        """Renew every lease from the calling loop: one may be revoked, or a clock has jumped. Refused leases are lost.

        Undecided renewals are left to the thread, which retries them; they do not count as failed.
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
        """Stop the thread and close its connection."""
        if self._loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._stop.set)
        await asyncio.to_thread(self._thread.join)

    def _kept(self) -> list[WorkerLease]:
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

    def _due(self, now: float) -> list[WorkerLease]:
        """Return the leases to renew now: those that are not fresh, and those whose last renewal is unknown."""
        old = [hold for hold in self._kept() if now - hold.since > self._ttl / 6]
        for hold in old:
            hold.counts = True
        return [*self._doubtful(now), *(hold for hold in old if hold.doubt is None and not hold.asked)]

    def _doubtful(self, now: float) -> list[WorkerLease]:
        """Return the leases to retry: the store did not decide them, or has not answered for a third of the TTL.

        A lease that has expired meanwhile is lost. A late answer is judged at the next wake-up, because this thread may
        have been kept from running, and the answer may have arrived already.
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

    def _begin(self, holds: Sequence[WorkerLease]) -> None:
        """Start renewals without waiting for them, so that a hanging call does not delay the others."""
        now = time.monotonic()
        for hold in holds:
            hold.asked = now
        for start in range(0, len(holds), CHUNK):
            call = asyncio.create_task(self._call(holds[start : start + CHUNK], now))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)

    async def _call(self, holds: Sequence[WorkerLease], now: float) -> None:
        # After a whole TTL an answer is of no use.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._ttl):
                await self._renew(self._connected, holds)
        # Leases whose answer was late have been retried meanwhile.
        answered = [hold for hold in holds if hold.asked == now]
        for hold in answered:
            hold.asked = 0.0
        failed = [hold for hold in answered if hold.doubt is not None and hold.loss is None and hold.counts]
        for hold in failed:
            hold.failures, hold.counts = hold.failures + 1, False
        if failed:
            log.warning("renewal of %d leases failed, tried again: %s", len(failed), failed[-1].doubt)

    async def _connected(self) -> RenewalStore:
        """Return the connection of this thread; if it cannot be opened, the next call tries again."""
        if self._own is None:
            opened = self._store if self._connect is None else await self._connect()
            if self._own is None:
                self._own = opened
            else:  # another call opened one meanwhile
                await opened.close()
        return self._own

    # In either thread.

    async def _shared(self) -> RenewalStore:
        return self._store

    async def _renew(
        self, connected: Callable[[], Awaitable[RenewalStore]], holds: Sequence[WorkerLease]
    ) -> None:
        """Renew leases in one call. Refused leases are lost; undecided ones are marked for a retry."""
        asked = time.monotonic()
        try:
            store = await connected()
            replies: list[Any] = await store.apply_many([hold.renewal() for hold in holds])
        except FlowFabricError as error:
            replies = [error] * len(holds)
        except Exception as error:
            # A user's layer, or a defect: the leases are still held, so they are kept.
            log.exception("renewing failed in an unexpected way, and is tried again")
            replies = [InternalError(f"{type(error).__name__}: {error}")] * len(holds)
        for hold, reply in zip(holds, replies, strict=True):
            if not isinstance(reply, FlowFabricError):
                hold.renewed(asked)
            elif hold.fence.lease_id not in self._holds:
                continue  # the task has ended meanwhile, so the refusal does not matter
            elif is_loss(reply):
                hold.failures += 1
                self._lose(hold, reply)
            else:
                hold.doubt = reply

    def _lose(self, hold: WorkerLease, error: FlowFabricError) -> None:
        self.drop(hold)
        with contextlib.suppress(RuntimeError):  # the loop of the handlers has ended
            self._handlers_loop.call_soon_threadsafe(hold.lose, error)
