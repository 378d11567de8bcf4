"""The embedded store: one SQLite file, safe to share between processes."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Self

from flowfabric.model.command import Command, Question
from flowfabric.model.errors import FlowFabricError, StoreBusy, StoreClosed
from flowfabric.model.ids import Partitions
from flowfabric.model.limits import FEED_AFTER_PURGE_MS
from flowfabric.model.machine.workspace import Workspace
from flowfabric.storage.base import Clock, Dump, RepairReport, StoreTraits
from flowfabric.storage.front import Front
from flowfabric.storage.sql.unit import Unit
from flowfabric.storage.sqlite.boot import prepare
from flowfabric.storage.sqlite.connection import MEMORY, Synchronous, connect, is_read_only
from flowfabric.storage.sqlite.inspect import dump, forget_past, repair
from flowfabric.storage.sqlite.peers import Peers
from flowfabric.storage.sqlite.session import Session
from flowfabric.storage.sqlite.writer import Writer, defect
from flowfabric.storage.wake import EVERYTHING, KINDS, topics_of

POLL_SECONDS: Final = 1.0
READERS: Final = 4


def wall_clock() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class SqliteStore(Front):
    """Executions in a file, or in memory with the path `:memory:`; it offers what `Upkeep` names."""

    def __init__(self, path: str, writer_session: Session, clock: Clock, partitions: Partitions) -> None:
        super().__init__(clock, partitions)
        self._path = path
        alone = path == MEMORY or is_read_only(path)
        self._peers = None if alone else Peers(path, self.hub.publish)
        self._chance: Callable[[], float] = random.random
        self._writer = Writer(writer_session, self.now, self._draw, self._saved)
        self._readers = ThreadPoolExecutor(READERS, "flowfabric-reader")
        self._local = threading.local()
        self._sessions: list[Session] = []
        self._poll: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def traits(self) -> StoreTraits:
        """What this kind of store can do."""
        return StoreTraits(is_thread_safe=True)  # a thread of its own writes for all of them

    @classmethod
    async def open(
        cls,
        path: str | Path,
        *,
        synchronous: Synchronous = "NORMAL",
        clock: Clock = wall_clock,
        partitions: Partitions | None = None,
        chance: Callable[[], float] = random.random,
    ) -> Self:
        """Open or create a database.

        With `synchronous="NORMAL"` an acknowledged write survives a kill of the process, with `FULL` also a power cut.
        """
        name = _absolute(str(path))
        counts = partitions or Partitions()
        counts.check()
        session = await asyncio.to_thread(prepare, name, synchronous, counts)
        store = cls(name, session, clock, counts)
        store._chance = chance
        if store._peers is not None:
            store._peers.start()
            seen = await asyncio.to_thread(session.version)
            store._poll = asyncio.create_task(store._watch_others(seen))
        return store

    def _draw(self) -> float:
        return self._chance()

    def _saved(self, space: Workspace) -> None:
        alone = self._peers is None or self._peers.alone
        if alone and not self.hub.kinds:
            return
        topics, due_at = topics_of(space, self.hub.kinds if alone else KINDS)
        self.hub.publish(topics, due_at)
        if self._peers is not None and not alone and topics:
            self._peers.send(topics, due_at)

    def _decide(self, commands: Sequence[Command[Any]]) -> Awaitable[list[Any]]:
        return self._writer.decide(commands)

    async def _ask(self, question: Question[Any]) -> Any:
        if self._closed:
            raise StoreClosed
        if self._path == MEMORY:  # a second connection would see another, empty database
            return await self._writer.call(lambda session: self._answer(session, question))
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self._answer_here, question)

    def _answer_here(self, question: Question[Any]) -> Any:
        session: Session | None = getattr(self._local, "session", None)
        if session is None:
            session = Session(connect(self._path, read_only=True), self._path)
            self._local.session = session
            self._sessions.append(session)
        return self._answer(session, question)

    def _answer(self, session: Session, question: Question[Any]) -> Any:
        try:
            with session.reading():
                return session.run(Unit().read(Workspace(self.now()), question))
        except FlowFabricError as error:
            return error
        except Exception as error:  # noqa: BLE001 - whoever asks gets one of our errors, whatever went wrong
            return defect(error)

    async def _watch_others(self, seen: int) -> None:
        """Look once a second whether other processes wrote: the safety net under the datagrams.

        A datagram that was heard may not have been the only one, so every fifth look trusts none.
        """
        assert self._peers is not None
        untold = False
        for turn in itertools.count(1):
            await asyncio.sleep(POLL_SECONDS)
            heard, self._peers.heard = self._peers.heard, False
            try:
                before, seen = seen, await self._writer.call(Session.version)
            except StoreBusy:
                continue
            untold = untold or seen != before
            if (seen != before and not heard) or (untold and turn % 5 == 0):
                self.hub.publish({EVERYTHING})
                untold = False

    async def _once(self, name: str, *parameters: Any) -> list[Any]:
        rows: list[Any] = await self._writer.call(lambda session: session.once(name, parameters))
        return rows

    async def take_baton(self, name: str, holder: str, ttl_ms: int) -> bool:
        """Hold or keep the right to do something alone, for a while."""
        now = self.now()
        return bool(await self._once("take baton", name, holder, now + ttl_ms, now))

    async def drop_baton(self, name: str, holder: str) -> None:
        """Give that right back at once."""
        await self._once("drop baton", name, holder)

    async def collect(self, limit: int = 1000) -> int:
        """Delete what has expired and is never read again."""
        now = self.now()
        memos = await self._once("collect", now, limit)
        workers = await self._once("collect workers", now, limit)
        await self._once("collect serving", now, limit)
        past: int = await self._writer.call(
            lambda session: forget_past(session, now - FEED_AFTER_PURGE_MS, limit)
        )
        return len(memos) + len(workers) + past

    async def repair(self, *, fix: bool = True) -> RepairReport:
        """Compare every index entry with what its record implies."""
        report: RepairReport = await self._writer.call(lambda session: repair(session, fix))
        return report

    async def dump(self) -> Dump:
        """Return everything; for proofs and small stores."""
        contents: Dump = await self._writer.call(dump)
        return contents

    async def close(self) -> None:
        """Finish what was accepted, then let everything go."""
        if self._closed:
            return
        self._closed = True
        if self._poll is not None:
            self._poll.cancel()
        await asyncio.sleep(0)  # what this turn of the loop has submitted reaches the writer first
        await asyncio.to_thread(self._writer.close)
        await asyncio.to_thread(self._readers.shutdown)
        for session in self._sessions:
            session.close()
        if self._peers is not None:
            self._peers.stop()


def _absolute(path: str) -> str:
    return path if path == MEMORY else os.path.abspath(path)  # noqa: PTH100 - text in, text out
