"""What a question costs does not grow with what others have: counted in steps of the database, not in time."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flowfabric.model.ids import Partitions
from flowfabric.model.presence import MOST_GROUPS
from flowfabric.storage.sql.statements import STATEMENTS
from flowfabric.storage.sqlite.boot import prepare

FOREIGN_WORKERS = 3_000
FOREIGN_LANES = 10_000
STEPS = 20
"""How many steps more than before are let pass: an index has grown deeper."""
QUESTIONS: dict[str, tuple[Any, ...]] = {
    "serving": ("mine", "default", 0, MOST_GROUPS + 1),
    "worker": ("mine", "i"),
    "workers of namespace": (0, "mine", "", 100),
    "totals": ("",),
    "lane names of namespace": ("mine", "", 100),
    "tallies of namespace": ("mine", "a", "z"),
}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    path = tmp_path / "ff.db"
    prepare(str(path), "NORMAL", Partitions()).close()
    connection = sqlite3.connect(path)
    yield connection
    connection.close()


def steps(db: sqlite3.Connection, name: str) -> int:
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    db.set_progress_handler(step, 1)
    db.execute(STATEMENTS[name].sql, QUESTIONS[name]).fetchall()
    db.set_progress_handler(None, 1)
    return count


@pytest.mark.parametrize("name", sorted(QUESTIONS))
def test_others_cost_nothing(db: sqlite3.Connection, name: str) -> None:
    before = steps(db, name)
    workers = [("foreign", f"i{number}") for number in range(FOREIGN_WORKERS)]
    db.executemany("insert into worker values (?, ?, 9, '')", workers)
    db.executemany(
        "insert into serving values (?, 'default', ?, ?, 9)",
        [(namespace, instance, instance) for namespace, instance in workers],
    )
    lanes = [(f"lane{number}",) for number in range(FOREIGN_LANES)]
    db.executemany("insert into tally values (?, 'foreign', 'waiting', 1)", lanes)
    assert steps(db, name) <= before + STEPS


def test_many_workers_of_ones_own_are_looked_at_up_to_a_limit(db: sqlite3.Connection) -> None:
    rows = [(f"i{number}", f"i{number}") for number in range(FOREIGN_WORKERS)]
    db.executemany("insert into serving values ('mine', 'default', ?, ?, 9)", rows[: MOST_GROUPS * 2])
    before = steps(db, "serving")
    db.executemany("insert into serving values ('mine', 'default', ?, ?, 9)", rows[MOST_GROUPS * 2 :])
    assert steps(db, "serving") <= before + STEPS
