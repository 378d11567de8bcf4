"""The ceiling on SQLite: few columns, bare statements, one writer thread with group commit, and nothing decided."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Self

SCHEMA = """
create table if not exists job (
    k integer primary key, lane text, state integer default 0, priority integer default 0, epoch integer default 0,
    worker text, lease_until integer, ended integer, input blob, result blob
);
create index if not exists waiting on job (lane, priority desc, k) where state = 0;
create index if not exists leased on job (lease_until) where state = 1;
create table if not exists try (
    k integer, n integer, worker text, started integer, ended integer, primary key (k, n)
) without rowid;
"""
INSERT = "insert into job (lane, input) values ('bench', ?)"
CLAIM = """update job set state = 1, epoch = epoch + 1, worker = ?, lease_until = ? where k = (
    select k from job where lane = 'bench' and state = 0 order by priority desc, k limit 1
) returning k, epoch, input"""
TRY = "insert into try (k, n, worker, started) values (?, ?, ?, ?)"
FINISH = "update job set state = 2, result = ?, ended = ?, lease_until = null where k = ? and epoch = ? and state = 1"
TRIED = "update try set ended = ? where k = ? and n = ?"

Job = tuple[int, int, bytes]
"""Key, epoch, input."""
Work = Callable[[sqlite3.Connection], Any]


class Writer:
    """A writer thread; requests that are queued meanwhile share a commit."""

    def __init__(self, path: str, synchronous: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[tuple[Work, asyncio.Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=(path, synchronous))
        self._thread.start()

    def do(self, work: Work) -> asyncio.Future[Any]:
        """Queue a request; the future receives its answer."""
        future = self._loop.create_future()
        self._queue.put((work, future))
        return future

    def _run(self, path: str, synchronous: str) -> None:
        db = sqlite3.connect(path, isolation_level=None)
        db.execute("pragma journal_mode = wal")
        db.execute(f"pragma synchronous = {synchronous}")
        while (item := self._queue.get()) is not None:
            items = [item]
            while len(items) < 64 and not self._queue.empty():
                if (more := self._queue.get()) is None:
                    self._queue.put(None)
                    break
                items.append(more)
            db.execute("begin immediate")
            answers = [(future, work(db)) for work, future in items]
            db.execute("commit")
            self._loop.call_soon_threadsafe(self._settle, answers)
        db.close()

    @staticmethod
    def _settle(answers: list[tuple[asyncio.Future[Any], Any]]) -> None:
        for future, answer in answers:
            future.set_result(answer)

    async def close(self) -> None:
        """Finish what is queued, then close."""
        self._queue.put(None)
        # Closing writes the log back; it must not reach into the next run.
        await asyncio.to_thread(self._thread.join)


def insert(body: bytes) -> Work:
    def work(db: sqlite3.Connection) -> None:
        db.execute(INSERT, (body,))

    return work


def claim(worker: str, limit: int) -> Work:
    def work(db: sqlite3.Connection) -> list[Job]:
        now = int(time.time() * 1000)
        found: list[Job] = []
        while (
            len(found) < limit and (row := db.execute(CLAIM, (worker, now + 30_000)).fetchone()) is not None
        ):
            db.execute(TRY, (row[0], row[1], worker, now))
            found.append(row)
        return found

    return work


def finish(k: int, epoch: int) -> Work:
    def work(db: sqlite3.Connection) -> None:
        now = int(time.time() * 1000)
        db.execute(FINISH, (b"{}", now, k, epoch))
        db.execute(TRIED, (now, k, epoch))

    return work


class SqliteCeiling:
    """A job queue in a SQLite file."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    @classmethod
    async def open(cls, path: str, synchronous: str) -> Self:
        """Open the file; create its tables if they do not exist."""
        db = sqlite3.connect(path)
        db.executescript(SCHEMA)
        db.close()
        return cls(Writer(path, synchronous))

    async def submit(self, body: bytes) -> None:
        """Add one job."""
        await self._writer.do(insert(body))

    async def claim(self, worker: str, limit: int) -> Sequence[Job]:
        """Take the oldest."""
        jobs: Sequence[Job] = await self._writer.do(claim(worker, limit))
        return jobs

    async def finish(self, tasks: Sequence[Job]) -> None:
        """End jobs with a result."""
        await asyncio.gather(*(self._writer.do(finish(k, epoch)) for k, epoch, _ in tasks))

    async def close(self) -> None:
        """Finish what is queued, then close."""
        await self._writer.close()
