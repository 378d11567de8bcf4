"""The ceiling on SQLite: few columns, bare statements, one writer thread with group commit, and nothing decided."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.settings import Rates, Settings

SCHEMA = """
create table job (
    k integer primary key, lane text, state integer default 0, priority integer default 0, epoch integer default 0,
    worker text, lease_until integer, ended integer, input blob, result blob
);
create index waiting on job (lane, priority desc, k) where state = 0;
create index leased on job (lease_until) where state = 1;
create table try (k integer, n integer, worker text, started integer, ended integer, primary key (k, n)) without rowid;
"""
INSERT = "insert into job (k, lane, input) values (?, 'bench', ?)"
CLAIM = """update job set state = 1, epoch = epoch + 1, worker = ?, lease_until = ? where k = (
    select k from job where lane = 'bench' and state = 0 order by priority desc, k limit 1
) returning k, epoch, input"""
TRY = "insert into try (k, n, worker, started) values (?, ?, ?, ?)"
FINISH = "update job set state = 2, result = ?, ended = ?, lease_until = null where k = ? and epoch = ? and state = 1"
TRIED = "update try set ended = ? where k = ? and n = ?"

Work = Callable[[sqlite3.Connection], Any]


class Writer:
    """One thread; what is queued meanwhile shares a commit."""

    def __init__(self, path: Path, synchronous: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[tuple[Work, asyncio.Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=(path, synchronous))
        self._thread.start()

    def do(self, work: Work) -> asyncio.Future[Any]:
        """Queue a piece of work; the future takes its answer."""
        future = self._loop.create_future()
        self._queue.put((work, future))
        return future

    def _run(self, path: Path, synchronous: str) -> None:
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


def insert(k: int, body: bytes) -> Work:
    def work(db: sqlite3.Connection) -> None:
        db.execute(INSERT, (k, body))

    return work


def claim(worker: str) -> Work:
    def work(db: sqlite3.Connection) -> Any:
        now = int(time.time() * 1000)
        row = db.execute(CLAIM, (worker, now + 30_000)).fetchone()
        if row is not None:
            db.execute(TRY, (row[0], row[1], worker, now))
        return row

    return work


def finish(k: int, epoch: int) -> Work:
    def work(db: sqlite3.Connection) -> None:
        now = int(time.time() * 1000)
        db.execute(FINISH, (b"{}", now, k, epoch))
        db.execute(TRIED, (now, k, epoch))

    return work


async def run(folder: Path, settings: Settings) -> Rates:
    """Insert, claim and finish every job with the same number of slots as the engine."""
    path = folder / "ceiling.db"
    db = sqlite3.connect(path)
    db.executescript(SCHEMA)
    db.close()
    writer = Writer(path, settings.synchronous)
    body = settings.body()
    numbers = iter(range(settings.tasks))

    async def submitter() -> None:
        for k in numbers:
            await writer.do(insert(k, body))

    async def slot(worker: str) -> int:
        done = 0
        while (row := await writer.do(claim(worker))) is not None:
            await writer.do(finish(row[0], row[1]))
            done += 1
        return done

    begin = time.perf_counter()
    await asyncio.gather(*(submitter() for _ in range(settings.slots)))
    middle = time.perf_counter()
    done = await asyncio.gather(*(slot(f"w{n}") for n in range(settings.slots)))
    end = time.perf_counter()
    assert sum(done) == settings.tasks
    await writer.close()
    return Rates(
        settings.tasks / (middle - begin), settings.tasks / (end - middle), settings.tasks / (end - begin)
    )
