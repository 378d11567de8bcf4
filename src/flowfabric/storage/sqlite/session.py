"""One connection and its transactions; carries out what the unit of work asks."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from flowfabric.model.errors import StoreBusy
from flowfabric.storage.sql.requests import Ask, Fetch, Plan, Request
from flowfabric.storage.sql.statements import FETCH, OTHER, WRITE
from flowfabric.storage.sqlite.connection import translate

T = TypeVar("T")
BUSY_SECONDS: Final = 10.0
"""How long a writer waits for other processes before it says that the store is busy."""


class Session:
    """Runs plans inside transactions. Not shared between threads."""

    def __init__(self, db: sqlite3.Connection, path: str) -> None:
        self._db = db
        self._path = path
        self.before: Callable[[str], None] | None = None
        """Called with the name of each statement before it runs; tests let it fail there."""

    def run(self, plan: Plan[T]) -> T:
        """Carry out a plan in the transaction that is open."""
        answer: Any = None
        try:
            while True:
                answer = self._answer(plan.send(answer))
        except StopIteration as done:
            result: T = done.value
            return result

    def _answer(self, request: Request) -> Any:
        name = request.name
        if self.before is not None:
            self.before(name)
        execute = self._db.execute
        if isinstance(request, Fetch):
            statement = FETCH[name]
            return [execute(statement, key).fetchall() for key in request.keys]
        if isinstance(request, Ask):
            return execute(OTHER[name], request.parameters).fetchall()
        statement = WRITE[name]
        if len(request.rows) == 1:
            execute(statement, request.rows[0])
        else:
            self._db.executemany(statement, request.rows)
        return None

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the write lock; commit at the end, undo everything on any failure."""
        self._lock()
        with self._ending("commit"):
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """See one moment of the database."""
        self._db.execute("begin")
        with self._ending("rollback"):
            yield

    @contextmanager
    def _ending(self, last: str) -> Iterator[None]:
        try:
            yield
            if self.before is not None:
                self.before(last)
            self._db.execute(last)
        except sqlite3.Error as error:
            self._undo()
            raise translate(error, self._path) from error
        except BaseException:
            self._undo()
            raise

    def _undo(self) -> None:
        if self._db.in_transaction:
            self._db.execute("rollback")

    def once(self, name: str, parameters: Sequence[Any]) -> list[Any]:
        """Run one statement of `OTHER` that is a transaction by itself."""
        return self._patiently(lambda: self._db.execute(OTHER[name], parameters).fetchall())

    def _lock(self) -> None:
        self._patiently(lambda: self._db.execute("begin immediate"))

    def _patiently(self, work: Callable[[], T]) -> T:
        """Wait for other writers in short, uneven steps: SQLite's own steps grow to a tenth of a second."""
        give_up = time.monotonic() + BUSY_SECONDS
        pause = 0.0002
        while True:
            try:
                return work()
            except sqlite3.Error as error:
                fault = translate(error, self._path)
                if not isinstance(fault, StoreBusy) or time.monotonic() > give_up:
                    raise fault from error
            time.sleep(pause * (0.5 + random.random()))  # noqa: S311 - spreads processes, hides nothing
            pause = min(pause * 1.5, 0.003)

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Run a statement of this store's own in the transaction that is open."""
        return self._db.execute(statement, parameters).fetchall()

    def version(self) -> int:
        """Return a number that changes when another connection has written."""
        ((number,),) = self._patiently(lambda: self._db.execute("pragma data_version").fetchall())
        return int(number)

    def close(self) -> None:
        """Let the connection go."""
        self._db.close()
