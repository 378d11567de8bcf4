"""Every statement is served by an index, and none sorts what an index already orders."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowfabric.model.ids import Partitions
from flowfabric.storage.sql.statements import STATEMENTS
from flowfabric.storage.sqlite.boot import prepare

SMALL_TABLES = {
    "token*": "token",
    "partition tags": "part",
}
"""Statements that read a whole table on purpose: a row for each token or partition."""
SORTS = {"due", "leases", "lane names", "tallies", "tallies of namespace"}
"""Statements that may sort: equal due times, and a handful of rows."""


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path: Path = tmp_path_factory.mktemp("plans") / "ff.db"
    prepare(str(path), "NORMAL", Partitions()).close()
    connection = sqlite3.connect(path)
    yield connection
    connection.close()


ALL = {name: statement.sql.replace("in ?", "in (?, ?)") for name, statement in STATEMENTS.items()}
WHOLE = {
    name
    for name in ALL
    if name.startswith(("dump ", "count ", "all "))
    or name in {"indexed executions", "delete tallies", "delete totals"}
} - {"all leases"}
"""Statements of dumps and repairs, which read everything."""
READS = sorted(name for name in ALL.keys() - WHOLE if not STATEMENTS[name].writes)


def plan_of(db: sqlite3.Connection, statement: str) -> list[str]:
    rows = db.execute(f"explain query plan {statement}", (0,) * statement.count("?")).fetchall()
    return [row[3] for row in rows]


@pytest.mark.parametrize("name", sorted(ALL.keys() - WHOLE))
def test_no_statement_scans(db: sqlite3.Connection, name: str) -> None:
    statement = ALL[name]
    plan = plan_of(db, statement)
    scans = [line for line in plan if line.startswith("SCAN") and "CONSTANT ROW" not in line]
    small = f"SCAN {SMALL_TABLES.get(name)}"
    assert all(re.fullmatch(small, line.partition(" USING")[0]) for line in scans), plan


@pytest.mark.parametrize("name", READS)
def test_order_comes_from_an_index(db: sqlite3.Connection, name: str) -> None:
    plan = plan_of(db, ALL[name])
    sorts = [line for line in plan if "TEMP B-TREE" in line]
    assert not sorts or name in SORTS, plan


@pytest.mark.parametrize("name", ["heads", "steps"])
def test_lists_of_steps_never_touch_a_result(db: sqlite3.Connection, name: str) -> None:
    assert any("USING COVERING INDEX step_order" in line for line in plan_of(db, ALL[name]))


INDEXES = {
    "list namespace": "execution_namespace (namespace=? AND state=?",
    "list flow of namespace": "execution_namespace_flow (namespace=? AND flow_id=?",
    "list tag of namespace": "tag_namespace (namespace=? AND name=? AND value=?",
}


@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize("name", sorted(INDEXES))
def test_lists_of_a_namespace_have_indexes_of_their_own(
    db: sqlite3.Connection, name: str, order: str
) -> None:
    (line,) = plan_of(db, ALL[f"{name} {order}"])
    assert f"USING COVERING INDEX {INDEXES[name]}" in line


@pytest.mark.parametrize("name", ["partition of namespace", "found of namespace"])
def test_ids_of_a_namespace_have_an_index_of_their_own(db: sqlite3.Connection, name: str) -> None:
    (line,) = plan_of(db, ALL[name])
    assert "USING COVERING INDEX execution_namespace_id (namespace=? AND id>" in line


def test_the_inbox_of_a_namespace_has_an_index_of_its_own(db: sqlite3.Connection) -> None:
    plan = plan_of(db, ALL["inbox of namespace"])
    assert any("INDEX waitpoint_namespace (namespace=? AND position>?)" in line for line in plan)
