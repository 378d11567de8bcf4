"""What the unit of work asks of a database: plain values, so that one code serves threads and event loops.

A plan is a generator. It yields requests, which name a statement of `statements`, and is sent their answers. Whoever
runs a plan decides how: SQLite runs a statement key by key, another dialect may send the keys as one set.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

Row = tuple[Any, ...]
T = TypeVar("T")


class Fetch(NamedTuple):
    """Run a statement for each key; the answer is a list of rows per key, in order."""

    name: str
    keys: Sequence[Row]


class Gather(NamedTuple):
    """Run a statement once for many values; the answer is all rows that it finds, in any order."""

    name: str
    values: Sequence[Any]


class Write(NamedTuple):
    """Run a statement for each row of parameters."""

    name: str
    rows: Sequence[Row]


class Ask(NamedTuple):
    """Run a statement once; the answer is its rows."""

    name: str
    parameters: Row


Request = Fetch | Gather | Write | Ask
Plan = Generator[Request, Any, T]
"""Work inside one transaction: yields requests and is sent their answers."""


class Transaction(NamedTuple, Generic[T]):
    """A plan that runs in a transaction of its own."""

    plan: Plan[T]
    writes: bool
    """True if the plan may write; then every statement takes the locks that it declares (`Statement.locks`)."""


Transactions = Generator[Transaction[Any], Any, T]
"""Work that takes several transactions: yields them and is sent their results."""


def ask_once(name: str, *parameters: Any) -> Transaction[list[Row]]:
    """Return a transaction that runs one statement and returns its rows."""

    def plan() -> Plan[list[Row]]:
        rows: list[Row] = yield Ask(name, parameters)
        return rows

    return Transaction(plan(), writes=True)
