"""Sending the commands of many handlers in few round trips, and retrying them."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeVar

from flowfabric.model.command import Command, Question
from flowfabric.model.errors import FlowFabricError, Infrastructure, ResourceExhausted
from flowfabric.storage.base import Commands
from flowfabric.worker.leases.worker_lease import WorkerLease

log = logging.getLogger("flowfabric.worker")

R = TypeVar("R")

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 2.0
MOST: Final = 256
"""The most commands in one call."""


def is_transient(error: BaseException) -> bool:
    """Return True if the same call may succeed later: the store is unreachable or overloaded."""
    return isinstance(error, Infrastructure | ResourceExhausted) and error.retryable


class RetryPause:
    """Pauses between retries: exponential, with jitter so that workers do not retry in step."""

    def __init__(self, first: float = FIRST_PAUSE, longest: float = LONGEST_PAUSE) -> None:
        self._first = self._next = first
        self._longest = longest

    def reset(self) -> None:
        """Start with the shortest pause again after a success."""
        self._next = self._first

    async def pause(self) -> None:
        """Sleep, and longer the next time."""
        pause, self._next = self._next, min(self._next * 2, self._longest)
        await asyncio.sleep(pause * (0.5 + random.random() / 2))  # noqa: S311 - spreads calls, guards nothing


Done = Callable[[Any], None]
"""Receives the answer of a command, or the error that refuses it."""


class Outbox:
    """Collects the commands of one turn of the event loop and sends them in one call."""

    def __init__(self, store: Commands) -> None:
        self._store = store
        self._waiting: list[tuple[Command[Any], Done]] = []
        self._sending: set[asyncio.Task[None]] = set()

    def tell(self, command: Command[Any], done: Done) -> None:
        """Send a command with the next call; `done` receives its answer."""
        if not self._waiting:
            self._start()
        self._waiting.append((command, done))

    def post(self, command: Command[R]) -> asyncio.Future[R]:
        """Send a command with the next call; return a future of its answer."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self.tell(command, partial(_settle, future))
        return future

    async def send(self, command: Command[R], hold: WorkerLease | None = None) -> R:
        """Send a command, and retry until the store has decided it or its lease has expired.

        A repeat is safe: the store recognises it, or a fence refuses it.
        """
        return await _persistently(lambda: self.post(command), command, hold)

    async def ask(self, question: Question[R], hold: WorkerLease | None = None) -> R:
        """Ask a question, and retry until the store has answered it or the lease has expired."""
        return await _persistently(lambda: self._store.read(question), question, hold)

    async def drain(self) -> None:
        """Wait until every command has been answered."""
        while self._waiting or self._sending:
            await asyncio.gather(*self._sending, return_exceptions=True)
            await asyncio.sleep(0)

    def _start(self) -> None:
        task = asyncio.get_running_loop().create_task(self._send(), name="flowfabric-outbox")
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self) -> None:
        """Send the collected commands. Runs in the next turn of the event loop, so that more can be collected."""
        part, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
        if self._waiting:
            self._start()
        try:
            replies: list[Any] = await self._store.apply_many([command for command, _ in part])
        except FlowFabricError as error:
            replies = [error] * len(part)
        except BaseException as error:
            for _, done in part:
                done(error)
            raise
        for (_, done), reply in zip(part, replies, strict=True):
            done(reply)


def _settle(future: asyncio.Future[Any], reply: Any) -> None:
    if future.done():
        return
    if isinstance(reply, BaseException):
        future.set_exception(reply)
    else:
        future.set_result(reply)


async def _persistently(
    call: Callable[[], Awaitable[R]], command: Command[Any], hold: WorkerLease | None
) -> R:
    backoff = RetryPause()
    while True:
        try:
            return await call()
        except FlowFabricError as error:
            if not is_transient(error) or not _lives(hold):
                raise
            log.warning("%s is sent again: %s", type(command).__name__, error)
        await backoff.pause()
        if hold is not None and hold.loss is not None:
            raise hold.loss


def _lives(hold: WorkerLease | None) -> bool:
    return hold is None or (hold.loss is None and time.monotonic() < hold.expires)
