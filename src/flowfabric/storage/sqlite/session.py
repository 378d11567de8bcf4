"""One connection to SQLite, which runs the plans of the unit of work in transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from flowfabric.storage.sql.requests import Ask, Fetch, Gather, Plan, Request, Transaction, Transactions
from flowfabric.storage.sql.statements import STATEMENTS
from flowfabric.storage.sqlite.connection import patiently, translate

A = TypeVar("A")
T = TypeVar("T")
MOST_VALUES: Final = 128
_SQL: Final = {name: statement.sql for name, statement in STATEMENTS.items()}


class Session:
    """Runs plans inside transactions. Not shared between threads."""

    def __init__(self, db: sqlite3.Connection, path: str) -> None:
        self._db = db
        self._path = path
        self.before: Callable[[str], None] | None = None
        """Called with the name of each statement before it runs; tests let it fail there."""

    def run(self, plan: Plan[T]) -> T:
        """Run a plan in the transaction that is open."""
        return _drive(plan, self._answer)

    def transact(self, transaction: Transaction[T]) -> T:
        """Run a plan in a transaction of its own."""
        with self.writing() if transaction.writes else self.reading():
            return self.run(transaction.plan)

    def transact_all(self, transactions: Transactions[T]) -> T:
        """Run several transactions, one after the other."""
        return _drive(transactions, self.transact)

    def _answer(self, request: Request) -> Any:
        name = request.name
        if self.before is not None:
            self.before(name)
        execute = self._db.execute
        statement = _SQL[name]
        if isinstance(request, Fetch):
            return [execute(statement, key).fetchall() for key in request.keys]
        if isinstance(request, Gather):
            return self._gather(statement, request.values)
        if isinstance(request, Ask):
            return execute(statement, request.parameters).fetchall()
        if len(request.rows) == 1:
            execute(statement, request.rows[0])
        else:
            self._db.executemany(statement, request.rows)
        return None

    def _gather(self, statement: str, values: Sequence[Any]) -> list[Any]:
        """Read the rows of many values, in a few batch sizes only, so that statements stay prepared."""
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
        """Hold the write lock; commit at the end, roll back on any error."""
        self._lock()
        with self._ending("commit"):
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read one snapshot of the database."""
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

    def _lock(self) -> None:
        patiently(self._path, lambda: self._db.execute("begin immediate"))

    def version(self) -> int:
        """Return a number that changes when another connection has written."""
        ((number,),) = patiently(self._path, lambda: self._db.execute("pragma data_version").fetchall())
        return int(number)

    def close(self) -> None:
        """Close the connection."""
        self._db.close()


def _drive(steps: Generator[A, Any, T], answer: Callable[[A], Any]) -> T:
    """Send a generator the answer to each thing that it yields; return its result."""
    sent: Any = None
    try:
        while True:
            sent = answer(steps.send(sent))
    except StopIteration as done:
        result: T = done.value
        return result
