"""Keeping leases from a thread of its own, so that a blocked event loop does not cost them.

The thread has its own event loop and, where a store needs one, its own connection. All leases that are due are renewed
in one call, three times in the life of a lease. The thread also watches the loop that runs the handlers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from flowfabric.model.contracts.base import Command, Fence
from flowfabric.model.contracts.lease import Renew, Task
from flowfabric.model.errors import FlowFabricError, refuse
from flowfabric.worker.faults import is_loss
from flowfabric.worker.watching import Watch

log = logging.getLogger("flowfabric.worker")

R = TypeVar("R")

UNHEALTHY: Final = 3
"""So many renewals in a row may fail before a lease counts as in danger."""
CHUNK: Final = 256
"""Renewals in one call."""


class Renewing(Protocol):
    """What the thread needs of a store."""

    async def apply_many(self, commands: Sequence[Command[R]]) -> list[R | FlowFabricError]:
        """Decide several commands, each on its own."""

    async def close(self) -> None:
        """Let everything go."""


class Borrowed:
    """A store that lives in the loop of the handlers and has no address: better than nothing, but blocked with it."""

    def __init__(self, store: Renewing, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._loop = loop

    async def apply_many(self, commands: Sequence[Command[R]]) -> list[R | FlowFabricError]:
        """Let the other loop do it."""
        call = self._store.apply_many(commands)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._loop))

    async def close(self) -> None:
        """It is closed by its owner."""


class Hold:
    """One lease that is kept until it is let go or lost."""

    __slots__ = (
        "begun",
        "execution_id",
        "expires",
        "failures",
        "fence",
        "loss",
        "on_loss",
        "since",
        "ttl_ms",
    )

    def __init__(self, task: Task, ttl_ms: int, since: float) -> None:
        self.execution_id = task.execution_id
        self.fence: Fence = task.fence
        self.ttl_ms = ttl_ms
        self.begun = time.monotonic()
        """When the answer of the claim was here."""
        self.since = since
        """When it was last known to be renewed, by the clock of this process; never too late."""
        self.expires = since + ttl_ms / 1000
        self.failures = 0
        self.loss: FlowFabricError | None = None
        self.on_loss: Callable[[FlowFabricError], None] | None = None
        """Called once, in the loop of the handlers."""

    def renewal(self) -> Renew:
        """The command that renews it."""
        return Renew(execution_id=self.execution_id, fence=self.fence, lease_ttl_ms=self.ttl_ms)

    @property
    def healthy(self) -> bool:
        """Whether the lease is held, as far as anybody here knows."""
        return self.loss is None and self.failures < UNHEALTHY and time.monotonic() < self.expires

    def renewed(self, since: float) -> None:
        """Note a renewal that was asked for at a time."""
        self.since, self.failures = since, 0
        self.expires = since + self.ttl_ms / 1000

    def lose(self, error: FlowFabricError) -> None:
        """Note that the lease is gone; whoever works under it is told once."""
        if self.loss is None:
            self.loss = error
            if self.on_loss is not None:
                self.on_loss(error)


class Renewer:
    """Renews the leases of one worker. `connect` opens the connection inside the thread; none: the store is shared."""

    def __init__(
        self,
        store: Renewing,
        ttl_ms: int,
        connect: Callable[[], Awaitable[Renewing]] | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._store = store
        self._connect = connect
        self._ttl = ttl_ms / 1000
        self._watch = watch
        self._holds: dict[str, Hold] = {}
        self._handlers_loop = asyncio.get_running_loop()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._work, name="flowfabric-renewal", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()
        self._started.wait()

    def add(self, hold: Hold) -> None:
        """Keep a lease from now on."""
        self._holds[hold.fence.lease_id] = hold

    def drop(self, hold: Hold) -> None:
        """Keep it no longer."""
        self._holds.pop(hold.fence.lease_id, None)

    async def renew_now(self) -> None:
        """Renew every lease without the thread: one may be gone, or a clock has jumped. What is refused is lost.

        A store that cannot be asked is left to the thread, which counts how often that happens.
        """
        await self._renew(self._store, [hold for hold in list(self._holds.values()) if hold.loss is None])

    async def close(self) -> None:
        """End the thread and its connection."""
        if self._loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._stop.set)
        await asyncio.to_thread(self._thread.join)

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
        own: Renewing | None = None
        interval = self._ttl / 3
        look = min(interval, 1.0)
        due = time.monotonic() + interval
        try:
            while not self._stop.is_set():
                wake = min(due, time.monotonic() + look)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), max(0.0, wake - time.monotonic()))
                    break
                now = time.monotonic()
                if self._watch is not None and self._holds:
                    self._watch.look(now - wake, self._ttl)
                if now < due:
                    continue
                due = now + interval
                own = await self._connected(own)
                if own is not None and (undecided := await self._renew(own, self._due(now))):
                    self._failed([hold for hold, _ in undecided], undecided[-1][1])
        finally:
            if own is not None and self._connect is not None:
                await own.close()

    async def _connected(self, own: Renewing | None) -> Renewing | None:
        """Return the connection of this thread; one that cannot be opened is tried again at the next turn."""
        if own is not None or self._connect is None:
            return own or self._store
        if not self._holds:
            return None
        try:
            return await self._connect()
        except FlowFabricError as error:
            self._failed(self._due(time.monotonic()), error)
            return None

    def _due(self, now: float) -> list[Hold]:
        """Name the leases that a later turn might not save; younger ones can wait for it."""
        return [
            hold
            for hold in list(self._holds.values())
            if hold.loss is None and now - hold.since > self._ttl / 6
        ]

    async def _renew(self, store: Renewing, holds: Sequence[Hold]) -> list[tuple[Hold, FlowFabricError]]:
        """Renew them; return those that the store could not decide, and why."""
        undecided: list[tuple[Hold, FlowFabricError]] = []
        for start in range(0, len(holds), CHUNK):
            part = holds[start : start + CHUNK]
            asked = time.monotonic()
            try:
                replies: list[Any] = await store.apply_many([hold.renewal() for hold in part])
            except FlowFabricError as error:
                replies = [error] * len(part)
            for hold, reply in zip(part, replies, strict=True):
                if not isinstance(reply, FlowFabricError):
                    hold.renewed(asked)
                elif hold.fence.lease_id not in self._holds:
                    continue  # what was ended meanwhile is refused, and nobody minds
                elif is_loss(reply):
                    hold.failures += 1
                    self._lose(hold, reply)
                else:
                    undecided.append((hold, reply))
        return undecided

    def _failed(self, holds: Sequence[Hold], error: FlowFabricError) -> None:
        """The store could not be asked: the lease holds until its time is over."""
        for hold in holds:
            hold.failures += 1
            if time.monotonic() >= hold.expires:
                self._lose(hold, refuse("lease_expired", text=f"it could not be renewed in time: {error}"))
        if holds:
            log.warning("renewal of %d leases failed, tried again: %s", len(holds), error)

    def _lose(self, hold: Hold, error: FlowFabricError) -> None:
        self.drop(hold)
        with contextlib.suppress(RuntimeError):  # the loop of the handlers has ended
            self._handlers_loop.call_soon_threadsafe(hold.lose, error)
