"""Nobody else reads the database or takes part in its wake-ups."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowfabric.model.ids import Partitions, spread
from flowfabric.model.operations.create import CreateExecution
from flowfabric.storage.sqlite import SqliteStore
from flowfabric.storage.sqlite.peers import _folder
from support.driver import new_uuid


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture(params=["short", "long"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A database whose sockets lie beside it, and one whose path is too long for that."""
    folder = tmp_path if request.param == "short" else tmp_path / ("f" * 100)
    folder.mkdir(exist_ok=True)
    return folder / "work.db"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def creation() -> CreateExecution:
    return CreateExecution(execution_id=spread(new_uuid(), Partitions()), execution_kind="job")


async def wakes(one: SqliteStore, other: SqliteStore) -> bool:
    """Tell whether a write of one process wakes the other, as far as its sockets go."""
    assert one._peers is not None
    assert other._peers is not None
    async with other.subscribe(["lane:default"]) as heard:
        await one.apply(creation())
        return await heard.wait(5.0)


async def test_the_database_and_what_lies_beside_it_belong_to_their_owner(path: Path) -> None:
    store = await SqliteStore.open(path)
    try:
        await store.apply(creation())
        files = [entry for entry in path.parent.iterdir() if entry.is_file()]
        assert {entry.name for entry in files} >= {"work.db", "work.db-wal", "work.db-shm"}
        assert {mode(entry) for entry in files} == {0o600}
        assert mode(_folder(str(path))) == 0o700
    finally:
        await store.close()


async def test_a_database_that_exists_keeps_its_mode(path: Path) -> None:
    path.touch(mode=0o640)
    path.chmod(0o640)
    await (await SqliteStore.open(path)).close()
    assert mode(path) == 0o640


@pytest.mark.parametrize("trap", ["open", "link", "file"])
async def test_a_folder_that_others_can_use_is_not_used(
    path: Path, tmp_path: Path, trap: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder, elsewhere = _folder(str(path)), tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if trap == "open":
        folder.mkdir()
        folder.chmod(0o777)
    elif trap == "link":
        folder.symlink_to(elsewhere)
    else:
        folder.touch()
    try:
        with caplog.at_level(logging.WARNING, logger="flowfabric.sqlite"):
            store, other = await SqliteStore.open(path), await SqliteStore.open(path)
        try:
            assert list(elsewhere.iterdir()) == []
            assert trap == "file" or not list(folder.iterdir())
            assert str(folder) in caplog.text
            assert await wakes(store, other)  # polling goes on
        finally:
            await other.close()
            await store.close()
    finally:
        folder.rmdir() if trap == "open" else folder.unlink()


async def test_a_folder_of_ours_is_used(path: Path) -> None:
    store, other = await SqliteStore.open(path), await SqliteStore.open(path)
    try:
        assert len(list(_folder(str(path)).iterdir())) == 2
        assert await wakes(store, other)
    finally:
        await other.close()
        await store.close()
    assert not _folder(str(path)).exists()
