from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from flowfabric import FlowFabric, SqliteStore, open_store
from flowfabric.model.errors import InvalidInput, PartitionMismatch
from flowfabric.model.ids import Partitions
from flowfabric.model.operations.access_secret import ListKids


@pytest.mark.parametrize("spelling", ["sqlite:///{name}", "sqlite:////{absolute}", "{name}", "{absolute}"])
async def test_each_spelling_opens_the_same_file(
    spelling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    absolute = str(tmp_path / "work.db")
    url = spelling.format(
        name="work.db", absolute=absolute.removeprefix("/") if "//" in spelling else absolute
    )
    await (await open_store(url)).close()
    with sqlite3.connect(absolute) as db:
        assert db.execute("select count(*) from keyring").fetchone() == (1,)
    db.close()


@pytest.mark.parametrize("url", [":memory:", "sqlite://:memory:"])
async def test_memory_leaves_no_file(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = await open_store(url)
    assert (await store.read(ListKids())).current_kid == "k1"
    await store.close()
    assert not list(tmp_path.iterdir())


async def test_a_store_keeps_its_secret(tmp_path: Path) -> None:
    rings = []
    for _ in range(2):
        store = await open_store(str(tmp_path / "work.db"))
        rings.append((await store.dump()).records["keyring"])
        await store.close()
    assert rings[0] == rings[1]


@pytest.mark.parametrize("url", ["postgresql://host/db", "ftp://x"])
async def test_an_unknown_scheme_is_told_what_exists(url: str) -> None:
    with pytest.raises(InvalidInput, match="sqlite://") as refusal:
        await open_store(url)
    assert refusal.value.field == "url"


@pytest.mark.parametrize("url", ["", "sqlite://", "sqlite:///", "sqlite://work.db"])
async def test_a_url_without_a_path_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        await open_store(url)


async def test_options_reach_the_store(tmp_path: Path) -> None:
    path = str(tmp_path / "work.db")
    store = await open_store(path, partitions=Partitions(flow=8), clock=lambda: 5)
    assert (store.partitions.flow, store.now()) == (8, 5)
    await store.close()
    with pytest.raises(PartitionMismatch):
        await open_store(path)


@pytest.mark.parametrize(("query", "level"), [("", 1), ("?synchronous=FULL", 2), ("?synchronous=full", 2)])
async def test_the_url_says_how_durable_writes_are(query: str, level: int, tmp_path: Path) -> None:
    app = FlowFabric(f"sqlite:///{tmp_path}/work.db{query}")
    async with app:
        store = await app._core.connection.get()
        assert isinstance(store, SqliteStore)
        (row,) = await store._writer.call(
            lambda session: session._db.execute("pragma synchronous").fetchall()
        )
    assert row == (level,)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["work.db"]


@pytest.mark.parametrize("query", ["synchronous=SOMETIMES", "sync=FULL", "synchronous"])
async def test_an_unknown_option_in_the_url_is_refused(query: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="synchronous"):
        await open_store(f"sqlite:///{tmp_path}/work.db?{query}")
    assert not list(tmp_path.iterdir())
