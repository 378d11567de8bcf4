"""The thread that writes. Commands that arrive while it is busy share the next transaction."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from flowfabric.model.command import Command
from flowfabric.model.errors import FlowFabricError, InternalError, StoreBusy, StoreClosed, StoreFull
from flowfabric.model.machine.workspace import Workspace
from flowfabric.storage.base import Clock
from flowfabric.storage.sql.cache import Cache
from flowfabric.storage.sql.unit import Unit
from flowfabric.storage.sqlite.session import Session

MAX_GROUP: Final = 256
"""Commands in one transaction; more would make the first of them wait for the last."""


class Job(Struct, frozen=True):
    """Commands to decide, or a function to run on the writer's session, and the future for the answer."""

    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    commands: Sequence[Command[Any]] = ()
    call: Callable[[Session], Any] | None = None


class Writer:
    """Owns the writing session of one store."""

    def __init__(
        self,
        session: Session,
        clock: Clock,
        chance: Callable[[], float],
        on_saved: Callable[[Workspace], None],
    ) -> None:
        self._session = session
        self._clock = clock
        self._chance = chance
        self._on_saved = on_saved
        self._cache = Cache()
        self._unit = Unit(self._cache)
        self._version = -1
        self._queue: queue.SimpleQueue[list[Job] | None] = queue.SimpleQueue()
        self._batches: dict[asyncio.AbstractEventLoop, list[Job]] = {}
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="flowfabric-writer", daemon=True)
        self._thread.start()

    @property
    def session(self) -> Session:
        """The writing session; touch it only in functions given to `call`."""
        return self._session

    def decide(self, commands: Sequence[Command[Any]]) -> asyncio.Future[list[Any]]:
        """Decide commands in the next transaction; return an answer or an error for each, in order."""
        return self._submit(commands, None)

    def call(self, function: Callable[[Session], Any]) -> asyncio.Future[Any]:
        """Run a function between two groups."""
        return self._submit((), function)

    def _submit(
        self, commands: Sequence[Command[Any]], call: Callable[[Session], Any] | None
    ) -> asyncio.Future[Any]:
        """Queue a job. All jobs of one turn of the event loop are handed over together and share a transaction."""
        if self._closed:
            raise StoreClosed
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        batch = self._batches.get(loop)
        if batch is None:
            batch = self._batches[loop] = []
            loop.call_soon(self._hand_over, loop)
        batch.append(Job(future, loop, commands, call))
        return future

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        self._queue.put(self._batches.pop(loop))

    def close(self) -> None:
        """Finish what was accepted, then close the connection."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        open_ = True
        while open_:
            jobs: list[Job] = []
            while open_ and (not jobs or not self._queue.empty()) and len(jobs) < MAX_GROUP:
                batch = self._queue.get()
                if batch is None:
                    open_ = False
                else:
                    jobs.extend(batch)
            self._do(jobs)
        self._session.close()

    def _do(self, jobs: list[Job]) -> None:
        """Decide commands in groups; run functions in between, in the order of the jobs."""
        group: list[Job] = []
        size = 0
        for job in jobs:
            if group and (job.call is not None or size + len(job.commands) > MAX_GROUP):
                self._settle(group, self._decide_group(group))
                group, size = [], 0
            if job.call is not None:
                self._settle([job], [self._call(job.call)])
            else:
                group.append(job)
                size += len(job.commands)
        if group:
            self._settle(group, self._decide_group(group))

    def _check_cache(self) -> None:
        """Clear the cache if another connection has written since; the write lock is held."""
        version = self._session.version()
        if version != self._version:
            self._cache.clear()
            self._version = version

    def _call(self, function: Callable[[Session], Any]) -> Any:
        if function is not Session.version:  # any other may write what it likes
            self._cache.clear()
        try:
            return function(self._session)
        except FlowFabricError as error:
            return error
        except Exception as error:  # noqa: BLE001 - the thread must outlive any defect
            return defect(error)

    def _decide_group(self, group: list[Job]) -> list[list[Any]]:
        commands = [command for job in group for command in job.commands]
        replies = self._transact(commands)
        answers: list[list[Any]] = []
        start = 0
        for job in group:
            answers.append(replies[start : start + len(job.commands)])
            start += len(job.commands)
        return answers

    def _transact(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Decide and save in one transaction.

        A group that fails is tried again command by command, so that one bad record fails only those that read it.
        """
        try:
            with self._session.writing():
                self._check_cache()
                space = Workspace(self._clock())
                chances = [self._chance() for _ in commands]
                replies = self._session.run(self._unit.write(space, commands, chances).plan)
        except Exception as error:  # noqa: BLE001 - the thread must outlive any defect
            self._cache.clear()
            fault = error if isinstance(error, FlowFabricError) else defect(error)
            if len(commands) == 1 or isinstance(fault, StoreBusy | StoreFull):
                return [fault] * len(commands)
            return [self._transact((command,))[0] for command in commands]
        with contextlib.suppress(Exception):  # what is saved is saved; listeners have a poll under them
            self._on_saved(space)
        return replies

    @staticmethod
    def _settle(jobs: Sequence[Job], answers: Sequence[Any]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
        for job, answer in zip(jobs, answers, strict=True):
            by_loop.setdefault(job.loop, []).append((job.future, answer))
        for loop, pairs in by_loop.items():
            try:
                loop.call_soon_threadsafe(_resolve, pairs)
            except RuntimeError:  # that loop has ended; nobody waits for these answers any more
                continue


def _resolve(pairs: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, answer in pairs:
        if future.done():
            continue
        if isinstance(answer, FlowFabricError):
            future.set_exception(answer)
        else:
            future.set_result(answer)


def defect(error: Exception) -> InternalError:
    """Return an `InternalError` for an exception that is a defect."""
    fault = InternalError(f"{type(error).__name__}: {error}")
    fault.__cause__ = error
    return fault
