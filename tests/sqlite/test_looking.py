"""Looking at the file: the safety net for news of other processes that never arrive."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from flowfabric.storage.sqlite import SqliteStore

QUIETLY = "insert into meta (name, value) values ('from', 'another process')"


@pytest.mark.parametrize("heard", [False, True], ids=["no-word", "a-word-of-somebody-else"])
async def test_what_others_write_after_opening_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: bool
) -> None:
    path = tmp_path / "flowfabric.db"
    monkeypatch.setattr("flowfabric.storage.sqlite.store.POLL_SECONDS", 0.001)
    store = await SqliteStore.open(path)
    assert store._peers is not None
    store._peers.heard = heard
    with sqlite3.connect(path) as db:
        db.execute(QUIETLY)
    db.close()
    async with store.subscribe(["lane:default"]) as listener:
        assert await listener.wait(30)
    await store.close()
