"""A file that an older version wrote is brought up to date when it is opened, with all that it holds."""

from __future__ import annotations

import sqlite3
from pathlib import Path

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


def as_before(path: Path, number: int) -> Path:
    """Write what a file holds as a version without this migration, and later ones, would have."""
    older = path.with_name("older.db")
    db = sqlite3.connect(older)
    for each, script in migrations():
        if each < number:
            db.executescript(script)
    db.execute("attach ? as newer", (str(path),))
    for (table,) in db.execute("select name from main.sqlite_master where type = 'table'").fetchall():
        columns = ", ".join(row[1] for row in db.execute(f"pragma main.table_info({table})"))
        db.execute(f"delete from main.{table}")
        db.execute(f"insert into main.{table} ({columns}) select {columns} from newer.{table}")
    db.commit()
    db.execute(f"pragma main.application_id = {APPLICATION_ID}")
    db.execute(f"pragma main.user_version = {number - 1}")
    db.close()
    return older


async def test_the_steps_of_an_older_file_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "flowfabric.db"
    store = await SqliteStore.open(path)
    task = await Driver(store, ManualClock()).running()
    for name, index in (("later", 3), ("first", 0)):
        await store.apply(
            PutStep(
                execution_id=task.execution_id, fence=task.fence, step_name=name, result=name.encode(),
                encoding="json", call_index=index,
            )
        )  # fmt: skip
    listed = [step async for step in every_step(store, task.execution_id, 100)]
    assert [(step.name, step.size) for step in listed] == [("first", 5), ("later", 5)]
    await store.close()
    store = await SqliteStore.open(as_before(path, LISTS))
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
    store = await SqliteStore.open(as_before(path, LISTS))
    try:
        for more in ({}, {"lane_id": "l"}, {"tags": (("env", "prod"),)}, {"states": (Public.SUSPENDED,)}):
            page = await store.read(ListExecutions(namespace="team", **more))
            assert [run.execution_id for run in page.runs] == [wait.execution_id], more
        inbox = await store.read(ReadInbox(namespace="team"))
        assert [view.execution_id for view in inbox.waitpoints] == [wait.execution_id]
    finally:
        await store.close()
