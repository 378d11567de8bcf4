"""Files that cannot be used, or not now: each is refused in words, and nothing is harmed."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from flowfabric.model.errors import FlowFabricError, PartitionMismatch, StoreClosed, StoreUnusable
from flowfabric.model.ids import Partitions
from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.operations.finish import Cancel
from flowfabric.model.operations.lane import ListLanes
from flowfabric.model.operations.operate import SetTags
from flowfabric.model.operations.read import Describe
from flowfabric.model.operations.read_list import ListExecutions
from flowfabric.storage import open_store
from flowfabric.storage.sql.codec import decode, encode
from flowfabric.storage.sqlite import SqliteStore, connection
from support.clock import ManualClock
from support.commands import Ff
from support.driver import Driver

NOBODY = 65_534
HOLD = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("begin immediate")
print("held", flush=True)
sys.stdin.readline()
db.execute("commit")
print("free", flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "flowfabric.db"


@pytest.fixture
async def ff(path: Path) -> AsyncIterator[Driver]:
    clock = ManualClock()
    store = await SqliteStore.open(path, clock=clock)
    yield Driver(store, clock)
    await store.close()


async def refused(path: Path, code: str, **options: Any) -> FlowFabricError:
    """Expect that opening is refused."""
    with pytest.raises(FlowFabricError) as caught:
        await SqliteStore.open(path, **options)
    assert caught.value.code == code, caught.value
    return caught.value


def write(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as db:
        for statement in statements:
            db.execute(statement)
    db.close()


async def filled(path: Path, count: int = 40) -> list[str]:
    """Make a database with some executions in it, and close it."""
    store = await SqliteStore.open(path)
    ff = Driver(store, ManualClock())
    made = [await ff.create(input_payload=b"x" * 2_000) for _ in range(count)]
    await store.close()
    return made


# Not a database of ours.


async def test_garbage_is_left_alone(path: Path) -> None:
    path.write_bytes(b"these are not the bytes of a database\n" * 200)
    error = await refused(path, "store_unusable")
    assert str(path) in str(error)
    assert path.read_bytes().startswith(b"these are not")


async def test_a_folder_is_refused(path: Path) -> None:
    path.mkdir()
    await refused(path, "store_unusable")


async def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    await refused(tmp_path / "nowhere" / "flowfabric.db", "store_unusable")


@pytest.mark.parametrize("statement", ["create table t (a)", "pragma application_id = 77"])
async def test_the_database_of_another_program_is_left_alone(path: Path, statement: str) -> None:
    write(path, statement)
    before = contents(path)
    await refused(path, "store_unusable")
    assert contents(path) == before


def contents(path: Path) -> list[Any]:
    db = sqlite3.connect(path)
    try:
        application = db.execute("pragma application_id").fetchall()
        return [application, db.execute("select sql from sqlite_master").fetchall()]
    finally:
        db.close()


async def test_an_empty_file_becomes_a_database(path: Path) -> None:
    path.touch()
    store = await SqliteStore.open(path)
    made = await Driver(store, ManualClock()).create()
    assert (await store.read(Describe(execution_id=made))).run.execution_id == made
    await store.close()


# Ours, but not usable.


async def test_a_newer_schema_is_refused(path: Path) -> None:
    await filled(path, 1)
    write(path, "pragma user_version = 9999")
    await refused(path, "schema_too_new")


async def test_other_partition_counts_are_refused(path: Path) -> None:
    await filled(path, 1)
    error = await refused(path, "partition_mismatch", partitions=Partitions(flow=8))
    assert error.field == "num_flow_partitions"
    assert error.details == ("256", "8")
    await (await SqliteStore.open(path)).close()


async def test_counts_that_cannot_be_are_refused_before_a_file_is_made(path: Path) -> None:
    await refused(path, "invalid_input", partitions=Partitions(flow=0))
    assert not path.exists()


async def test_a_file_that_may_only_be_read_is_refused(path: Path) -> None:
    """A file whose header asks for a newer writer is read-only for SQLite, whoever the user is."""
    await filled(path, 1)
    data = bytearray(path.read_bytes())
    data[18] = 3
    path.write_bytes(data)
    await refused(path, "store_unusable")


@contextmanager
def unprivileged() -> Iterator[None]:
    """Be somebody who may not write everything."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """Take the right to write from a file and its folder, for a user who has no other."""
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        with unprivileged():
            yield
    finally:
        path.parent.chmod(0o755)


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A file in a folder that other users reach, too."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "flowfabric.db"


async def test_a_file_without_the_right_to_write_can_be_read(reachable: Path) -> None:
    made = await filled(reachable, 2)
    with read_only(reachable):
        store = await SqliteStore.open(reachable)
        try:
            page = await store.read(ListExecutions())
            assert {run.execution_id for run in page.runs} == set(made)
            with pytest.raises(StoreUnusable, match="is read-only: it can be looked at, but not changed"):
                await store.apply(Cancel(execution_id=made[0], source="operator_override"))
        finally:
            await store.close()
        assert [each.name for each in reachable.parent.iterdir()] == [reachable.name]
        with pytest.raises(PartitionMismatch):
            await SqliteStore.open(reachable, partitions=Partitions(flow=2))


async def test_ff_looks_at_a_file_that_it_may_not_write(reachable: Path) -> None:
    (made,) = await filled(reachable, 1)
    ff = Ff(str(reachable))
    commands = (
        ("ps", "--json"),
        ("inspect", made),
        ("history", made),
        ("doctor",),
        ("cancel", "{fp:0}:" + "0" * 36),
    )
    for command in commands:  # so that everything is loaded while it can be
        await ff(*command)
    with read_only(reachable):
        shown = [await ff(*command) for command in commands[:-1]]
        refused = await ff("cancel", made)
    assert [each.code for each in shown] == [0, 0, 0, 0], shown
    assert [run["execution_id"] for run in shown[0].json] == [made]
    assert "444, read-only for this user" in shown[3].out
    assert refused.code == 4
    assert "is read-only: it can be looked at, but not changed" in refused.err


async def test_a_secret_of_the_environment_keeps_nobody_from_reading(
    reachable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FF_WAITPOINT_HMAC_SECRET", "ab" * 32)
    await (await open_store(str(reachable))).close()
    (made,) = await filled(reachable, 1)
    with read_only(reachable):
        store = await open_store(str(reachable))
        assert [run.execution_id for run in (await store.read(ListExecutions())).runs] == [made]
        await store.close()


async def test_what_another_user_writes_is_read_at_once(reachable: Path) -> None:
    writer = await SqliteStore.open(reachable)
    ff = Driver(writer, ManualClock())
    made = await ff.create()
    for each in reachable.parent.glob("*-shm"), reachable.parent.glob("*-wal"):
        next(each).chmod(0o444)
    with read_only(reachable):
        store = await SqliteStore.open(reachable)
        assert [run.execution_id for run in (await store.read(ListExecutions())).runs] == [made]
        await store.close()
    await writer.close()


async def test_a_read_only_file_that_is_not_up_to_date_says_so(reachable: Path) -> None:
    await filled(reachable, 1)
    write(reachable, "pragma user_version = 1")
    with read_only(reachable):
        assert "run `ff migrate` where it may be written" in str(await refused(reachable, "store_unusable"))
    write(reachable, "pragma user_version = 1000")
    with read_only(reachable):
        await refused(reachable, "schema_too_new")
    write(reachable, "pragma application_id = 1")
    with read_only(reachable):
        assert "holds other data" in str(await refused(reachable, "store_unusable"))


async def test_a_log_that_cannot_be_read_is_not_passed_over(reachable: Path) -> None:
    await filled(reachable, 1)
    Path(f"{reachable}-wal").write_bytes(b"left behind")
    with read_only(reachable):
        assert "left a log behind" in str(await refused(reachable, "store_unusable"))


async def test_a_folder_without_the_right_to_write_is_called_read_only(reachable: Path) -> None:
    reachable.touch()
    with read_only(reachable):
        refusal = await refused(reachable.parent / "other.db", "store_unusable")
    assert "cannot be made: its folder is read-only for this user" in str(refusal)


async def test_a_damaged_file_says_so(path: Path) -> None:
    await filled(path)
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    await refused(path, "corruption")


async def test_damage_that_shows_later_stays_with_those_who_touch_it(path: Path) -> None:
    """One record that cannot be read refuses its own commands; everything else goes on, also in the same group."""
    bad, good = await filled(path, 2)
    write(path, f"update execution set record = x'c1' where id = '{bad}'")
    store = await SqliteStore.open(path)
    try:
        tags = (("team", "red"),)
        group = [SetTags(execution_id=each, tags=tags) for each in (bad, good)]
        replies = await store.apply_many(group)
        assert isinstance(replies[0], FlowFabricError)
        assert replies[0].code == "corruption"
        assert not isinstance(replies[1], FlowFabricError)
        with pytest.raises(FlowFabricError) as caught:
            await store.read(Describe(execution_id=bad))
        assert caught.value.code == "corruption"
        assert (await store.read(Describe(execution_id=good))).run.tags == tags
    finally:
        await store.close()


async def test_a_record_of_a_newer_version_is_refused_not_guessed(path: Path) -> None:
    new, old = await filled(path, 2)
    db = sqlite3.connect(path)
    (data,) = db.execute("select record from execution where id = ?", (new,)).fetchone()
    newer = encode(replace(decode("execution", data), version=99))
    db.execute("update execution set record = ? where id = ?", (newer, new))
    db.commit()
    db.close()
    store = await SqliteStore.open(path)
    try:
        with pytest.raises(FlowFabricError) as caught:
            await store.apply(SetTags(execution_id=new, tags=(("a", "b"),)))
        assert caught.value.code == "schema_too_new"
        await store.apply(SetTags(execution_id=old, tags=(("a", "b"),)))
    finally:
        await store.close()
    db = sqlite3.connect(path)
    assert db.execute("select record from execution where id = ?", (new,)).fetchone()[0] == newer
    db.close()


async def test_no_room_is_said_and_forgotten(ff: Driver) -> None:
    """A real SQLITE_FULL: the file may not grow any more."""
    store = ff.store
    assert isinstance(store, SqliteStore)
    await ff.create()

    def limit(pages: int) -> None:
        db = store._writer.session._db
        here = db.execute("pragma page_count").fetchone()[0]
        db.execute(f"pragma max_page_count = {here + pages}")

    await store._writer.call(lambda _: limit(0))
    before = await store.dump()
    large = CreateExecution(execution_id=ff.new_id(), execution_kind="job", input_payload=b"x" * 500_000)
    with pytest.raises(FlowFabricError) as caught:
        await store.apply(large)
    assert caught.value.code == "store_full"
    assert caught.value.retryable
    assert await store.dump() == before
    await store._writer.call(lambda _: limit(10_000))
    await store.apply(large)


# Another process writes.


@contextmanager
def held(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the write lock until a line is written to it."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.communicate("\n")


async def test_a_writer_waits_for_another_process(
    ff: Driver, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    waiting = asyncio.Event()
    pause = time.sleep

    def noticed(seconds: float) -> None:
        loop.call_soon_threadsafe(waiting.set)
        pause(seconds)

    with held(path) as process:
        monkeypatch.setattr("flowfabric.storage.sqlite.connection.time.sleep", noticed)
        creation = asyncio.create_task(ff.create())
        await waiting.wait()
        assert not creation.done()
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        await creation
    assert (await ff.store.repair(fix=False)).checked == 1


async def test_a_writer_does_not_wait_for_ever(
    ff: Driver, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.02)
    before = await ff.store.dump()
    with held(path):
        with pytest.raises(FlowFabricError) as caught:
            await ff.create()
        assert caught.value.code == "store_busy"
        assert caught.value.retryable
        assert await ff.store.dump() == before  # readers are not in anybody's way
        assert await ff.store.read(ListLanes()) == ()
    await ff.create()


async def test_opening_waits_for_another_process_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled(path, 1)
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.02)
    with held(path):
        await refused(path, "store_busy")
    await (await SqliteStore.open(path)).close()


# Closed.


async def test_a_closed_store_says_so(path: Path) -> None:
    store = await SqliteStore.open(path)
    ff = Driver(store, ManualClock())
    known = await ff.create()
    await store.close()
    await store.close()
    calls = (
        ff.create,
        lambda: store.apply_many([SetTags(execution_id=known, tags=(("a", "b"),))]),
        lambda: store.read(Describe(execution_id=known)),
        store.dump,
        store.repair,
        store.collect,
        lambda: store.acquire_leader_lease("a", "b", 1),
    )
    for call in calls:
        with pytest.raises(StoreClosed):
            await call()


async def test_what_was_accepted_before_the_close_is_done(path: Path) -> None:
    store = await SqliteStore.open(path)
    ff = Driver(store, ManualClock())
    creations = [asyncio.create_task(ff.create()) for _ in range(50)]
    await asyncio.sleep(0)
    await store.close()
    made = await asyncio.gather(*creations)
    again = await SqliteStore.open(path)
    assert {key[0] for key in (await again.dump()).records["execution"]} == set(made)
    await again.close()
