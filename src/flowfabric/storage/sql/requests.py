"""What the unit of work asks of a database: plain values, so that one code serves threads and event loops."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeVar

Row = tuple[Any, ...]
T = TypeVar("T")


class Fetch(NamedTuple):
    """Run a statement of `FETCH` for each key; the answer is a list of rows per key, in order."""

    name: str
    keys: Sequence[Row]


class Gather(NamedTuple):
    """Run a statement of `GATHER` once for many values; the answer is all rows that it finds, in any order."""

    name: str
    values: Sequence[Any]


class Write(NamedTuple):
    """Run a statement of `WRITE` for each row of parameters."""

    name: str
    rows: Sequence[Row]


class Ask(NamedTuple):
    """Run a statement of `OTHER` once; the answer is its rows."""

    name: str
    parameters: Row


Request = Fetch | Gather | Write | Ask
Plan = Generator[Request, Any, T]
"""Work that yields requests and is sent their answers."""
