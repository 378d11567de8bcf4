"""Load every statement of the SQL stores from the `.sql` files beside this module, one file for each area.

A statement is a block without blank lines: a comment with its name, its parameters and what it does; if it locks
anything, a comment that says so (`-- locks keys`); then the SQL, in the words that all dialects share. Parameters are
written `?`, and a dialect that numbers them rewrites them once. `in ?` stands for a comparison with many values.
"""

from __future__ import annotations

import re
from enum import StrEnum
from importlib import resources
from typing import Final

from msgspec import Struct

NO_SCORE: Final = -(2**62)
"""Stands for "not claimable" in parameters; the statements turn it into null."""

OWNED: Final = (
    "payload",
    "result",
    "attempt",
    "history",
    "tag",
    "suspension",
    "waitpoint",
    "signal",
    "stream",
    "frame",
    "summary",
    "step",
)
"""Tables whose rows are deleted with their execution."""

_BLOCK: Final = re.compile(
    r"-- ([\w* ]+) \(([^)]*)\): ([^\n]+)\n(?:-- locks ([^\n]+)\n)?(?!--)(.+);", flags=re.DOTALL
)


class Lock(StrEnum):
    """What a statement locks until the transaction ends, if the transaction writes.

    A dialect with row locks takes them in ascending order of the keys, so that two transactions that want the same rows
    wait for each other and do not deadlock. SQLite has one writer at a time and ignores locks.
    """

    NONE = ""
    """Nothing: the rows belong to an execution that is locked already, or may be out of date."""
    ROWS = "rows"
    """The rows that are found."""
    FREE_ROWS = "free rows"
    """The rows that are found; rows that another transaction has locked are skipped."""
    KEYS = "keys"
    """The keys that are asked for, also those without a row: nobody else may insert one."""
    SHARED_KEYS = "shared keys"
    """The same keys, which others may read but not change."""
    TABLE = "table"
    """The whole table: nobody else may write to it."""


class Statement(Struct, frozen=True, kw_only=True):
    """A statement, and what a dialect must know to run it."""

    name: str
    parameters: tuple[str, ...]
    purpose: str
    sql: str
    writes: bool
    locks: Lock


def _load() -> dict[str, Statement]:
    statements: dict[str, Statement] = {}
    for file in resources.files(__name__).iterdir():
        if file.name.endswith(".sql"):
            for block in file.read_text(encoding="utf-8").split("\n\n"):
                if block.rstrip().endswith(";"):  # else it is a comment on the file
                    statement = _read(block.strip())
                    assert statement.name not in statements, statement.name
                    statements[statement.name] = statement
    return statements


def _read(block: str) -> Statement:
    found = _BLOCK.fullmatch(block)
    assert found, block
    name, parameters, purpose, locks, sql = found.groups()
    return Statement(
        name=name,
        parameters=tuple(parameters.split(", ")) if parameters else (),
        purpose=purpose,
        sql=sql,
        writes=sql.startswith(("insert", "update", "delete")),
        locks=Lock(locks or ""),
    )


STATEMENTS: Final = _load()
"""Every statement by its name."""
