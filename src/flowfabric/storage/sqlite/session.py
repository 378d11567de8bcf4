"""One connection and its transactions; carries out what the unit of work asks."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from flowfabric.storage.sql.requests import Ask, Fetch, Gather, Plan, Request
from flowfabric.storage.sql.statements import FETCH, GATHER, OTHER, WRITE
from flowfabric.storage.sqlite.connection import patiently, translate

T = TypeVar("T")
MOST_VALUES: Final = 128


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
        if isinstance(request, Gather):
            return self._gather(GATHER[name], request.values)
        if isinstance(request, Ask):
            return execute(OTHER[name], request.parameters).fetchall()
        statement = WRITE[name]
        if len(request.rows) == 1:
            execute(statement, request.rows[0])
        else:
            self._db.executemany(statement, request.rows)
        return None

    def _gather(self, statement: str, values: Sequence[Any]) -> list[Any]:
        """Ask for many values at once, in a few sizes only, so that statements stay prepared."""
        rows: list[Any] = []
        for start in range(0, len(values), MOST_VALUES):
            part = list(values[start : start + MOST_VALUES])
            size = 1 << (len(part) - 1).bit_length()
            part += part[-1:] * (size - len(part))
            marks = ",".join("?" * size)
            rows += self._db.execute(statement.replace("in ?", f"in ({marks})"), part).fetchall()
        return rows

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
        return patiently(self._path, lambda: self._db.execute(OTHER[name], parameters).fetchall())

    def _lock(self) -> None:
        patiently(self._path, lambda: self._db.execute("begin immediate"))

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Run a statement of this store's own in the transaction that is open."""
        return self._db.execute(statement, parameters).fetchall()

    def version(self) -> int:
        """Return a number that changes when another connection has written."""
        ((number,),) = patiently(self._path, lambda: self._db.execute("pragma data_version").fetchall())
        return int(number)

    def close(self) -> None:
        """Let the connection go."""
        self._db.close()
