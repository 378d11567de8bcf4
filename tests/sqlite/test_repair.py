"""Indexes that do not follow from their records are found, told and mended."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from flowfabric.storage.sqlite import SqliteStore
from support.clock import ManualClock
from support.driver import Driver

DAMAGE = {
    "claimable": "update execution set claim_score = null where claim_score is not null",
    "due": "update execution set due = 5",
    "state": "update execution set state = 'failed' where state = 'waiting'",
    "lease": "update execution set holder = 'nobody'",
    "tally": "update tally set executions = executions + 1",
    "queue": "update route set waiting = 7",
}


@pytest.mark.parametrize("statement", DAMAGE.values(), ids=list(DAMAGE))
async def test_damage_is_found_and_mended(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "ff.db"
    store = await SqliteStore.open(path, clock=ManualClock())
    ff = Driver(store, ManualClock())
    await ff.running()
    waiting = await ff.create()
    before = await store.dump()
    db = sqlite3.connect(path)
    db.execute(statement)
    db.commit()
    db.close()

    looked = await store.repair(fix=False)
    assert looked.wrong
    assert not looked.fixed
    mended = await store.repair()
    assert mended.wrong == looked.wrong
    assert mended.fixed
    assert (await store.repair()).wrong == ()
    assert await store.dump() == before
    assert (await ff.claim_one()).execution_id == waiting
    await store.close()


async def test_sound_data_needs_no_repair(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "ff.db", clock=ManualClock())
    ff = Driver(store, ManualClock())
    for _ in range(3):
        await ff.complete(await ff.running())
    report = await store.repair()
    assert (report.checked, report.wrong, report.fixed) == (3, (), False)
    await store.close()


async def test_a_new_store_needs_no_repair(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "ff.db", clock=ManualClock())
    assert (await store.repair()).checked == 0
    await store.close()


async def test_every_page_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowfabric.storage.sql.repair.PAGE", 2)
    path = tmp_path / "ff.db"
    store = await SqliteStore.open(path, clock=ManualClock())
    ff = Driver(store, ManualClock())
    for _ in range(4):
        await ff.create()
    db = sqlite3.connect(path)
    db.execute("update execution set due = 5")
    db.commit()
    db.close()
    report = await store.repair()
    assert (report.checked, len(report.wrong)) == (4, 4)
    assert (await store.repair()).wrong == ()
    await store.close()
