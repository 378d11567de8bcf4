"""A file that an older version wrote is brought up to date when it is opened, with all that it holds."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from flowfabric.engine import every_step
from flowfabric.model.operations.read_list import ListExecutions
from flowfabric.model.operations.signal import ReadInbox
from flowfabric.model.operations.step import PutStep
from flowfabric.model.state import Public
from flowfabric.storage.sqlite import SqliteStore
from flowfabric.storage.sqlite.connection import APPLICATION_ID, migrations
from support.clock import ManualClock
from support.driver import Driver
from support.waiting import suspend

LISTS = 6
"""The migration that gave lists their indexes."""
NAMES = 7
"""The migration that named columns by words."""
RENAMED = {"access": "token", "baton": "leader_lease"}


def write_older(path: Path, number: int) -> Path:
    """Copy a file as a version without this migration, and later ones, would have written it."""
    older = path.with_name("older.db")
    db = sqlite3.connect(older)
    db.create_function("packed", 2, lambda *_: 0)
    for each, script in migrations():
        if each < number:
            db.executescript(script)
    db.execute("attach ? as newer", (str(path),))
    for (table,) in db.execute("select name from main.sqlite_master where type = 'table'").fetchall():
        newer = RENAMED.get(table, table)
        # Migrations rename columns and append new ones, so the first ones are those of before.
        count = len(db.execute(f"pragma main.table_info({table})").fetchall())
        columns = ", ".join(
            row[1] for row in db.execute(f"pragma newer.table_info({newer})").fetchall()[:count]
        )
        known = [row[0] for row in db.execute("select name from main.counter")] if table == "counter" else []
        db.execute(f"delete from main.{table}")
        db.execute(f"insert into main.{table} select {columns} from newer.{newer}")
        if known:  # later migrations add counters
            db.execute(f"delete from main.counter where name not in ({','.join('?' * len(known))})", known)
    db.commit()
    db.execute(f"pragma main.application_id = {APPLICATION_ID}")
    db.execute(f"pragma main.user_version = {number - 1}")
    db.close()
    return older


def schema(path: Path) -> dict[str, str]:
    """Return the statement that made each table and index, without comments and line breaks."""
    db = sqlite3.connect(path)
    found = db.execute("select name, sql from sqlite_master where sql is not null").fetchall()
    db.close()
    return {name: " ".join(re.sub("--.*", "", sql).split()) for name, sql in found}


async def test_the_steps_of_an_older_file_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "flowfabric.db"
    store = await SqliteStore.open(path)
    task = await Driver(store, ManualClock()).running()
    for name, index in (("later", 3), ("first", 0)):
        await store.apply(
            PutStep(
                execution_id=task.execution_id,
                fence=task.fence,
                step_name=name,
                result=name.encode(),
                encoding="json",
                call_index=index,
            )
        )
    listed = [step async for step in every_step(store, task.execution_id, 100)]
    assert [(step.name, step.size) for step in listed] == [("first", 5), ("later", 5)]
    await store.close()
    store = await SqliteStore.open(write_older(path, LISTS))
    try:
        assert [step async for step in every_step(store, task.execution_id, 100)] == listed
    finally:
        await store.close()


async def test_lists_of_a_namespace_hold_what_an_older_file_has(tmp_path: Path) -> None:
    path = tmp_path / "flowfabric.db"
    store = await SqliteStore.open(path)
    ff = Driver(store, ManualClock())
    await ff.seed()
    await ff.create(tags=(("env", "prod"),))
    wait = await suspend(ff, await ff.running(namespace="team", lane_id="l", tags=(("env", "prod"),)))
    await store.close()
    store = await SqliteStore.open(write_older(path, LISTS))
    try:
        for more in ({}, {"lane_id": "l"}, {"tags": (("env", "prod"),)}, {"states": (Public.SUSPENDED,)}):
            page = await store.read(ListExecutions(namespace="team", **more))
            assert [run.execution_id for run in page.runs] == [wait.execution_id], more
        inbox = await store.read(ReadInbox(namespace="team"))
        assert [view.execution_id for view in inbox.waitpoints] == [wait.execution_id]
    finally:
        await store.close()


async def test_a_file_with_short_column_names_keeps_all_that_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "flowfabric.db"
    clock = ManualClock()
    store = await SqliteStore.open(path, clock=clock)
    ff = Driver(store, clock)
    await ff.seed()
    await suspend(ff, await ff.running(namespace="team", tags=(("env", "prod"),)))
    await ff.complete(await ff.running())
    waiting = await ff.create()
    before = await store.dump()
    await store.close()
    older = write_older(path, NAMES)
    assert " k integer" in schema(older)["execution"]

    store = await SqliteStore.open(older, clock=clock)
    try:
        assert await store.dump() == before
        assert (await store.repair(fix=False)).wrong == ()
        assert (await Driver(store, clock).claim_one()).execution_id == waiting
    finally:
        await store.close()


@pytest.mark.parametrize("number", range(2, NAMES + 1))
async def test_an_older_file_ends_with_the_schema_of_a_new_one(tmp_path: Path, number: int) -> None:
    path = tmp_path / "flowfabric.db"
    await (await SqliteStore.open(path)).close()
    older = write_older(path, number)
    assert schema(older) != schema(path)
    await (await SqliteStore.open(older)).close()
    assert schema(older) == schema(path)


async def test_no_column_has_a_name_of_one_letter(tmp_path: Path) -> None:
    path = tmp_path / "flowfabric.db"
    await (await SqliteStore.open(path)).close()
    db = sqlite3.connect(path)
    for table in schema(path):
        for row in db.execute(f"pragma table_info({table})").fetchall():
            assert len(row[1]) > 1, table
    db.close()
