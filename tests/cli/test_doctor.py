"""`ff doctor` and `ff migrate`: what they find, and what they leave alone."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from flowfabric.cli.doctor import valkey
from flowfabric.storage.sqlite.connection import migrations
from flowfabric.storage.valkey.connection.client import Client
from flowfabric.storage.valkey.opening.boot import MARK
from support.commands import Ff
from support.valkey import empty_server
from support.working import Place


def verdicts(found: list[dict[str, Any]]) -> dict[str, str]:
    return {each["name"]: each["verdict"] for each in found}


async def test_a_store_is_looked_at(place: Place, ff: Ff) -> None:
    await place.submit("x")
    ended = await ff("doctor", "--json")
    found = verdicts(ended.json)
    assert {"flowfabric", "python", "store", "answers", "partitions"} <= found.keys()
    assert found["workers"] == "note"  # something waits, and nobody works
    assert found["clock"] == "ok"
    if place.name == "valkey":  # the server of the suites keeps nothing
        assert (ended.code, found["appendonly"], found["maxmemory-policy"]) == (1, "change", "ok")
    else:
        assert (ended.code, "change" in found.values()) == (0, False)
    text = (await ff("doctor")).out
    assert "start one with `ff worker MODULE:APP`" in text


async def test_doctor_says_what_to_change_in_valkey(tmp_path: Path) -> None:
    info = {"aof_enabled": "1", "maxmemory": "100", "used_memory": "95", "maxmemory_policy": "allkeys-lru"}
    found = {each.name: each for each in (*valkey.check_memory(info), *valkey.check_persistence(info))}
    assert {name for name, each in found.items() if each.verdict == "change"} == {
        "maxmemory-policy",
        "memory",
    }
    assert "set noeviction" in found["maxmemory-policy"].remedy
    failing = valkey.check_persistence({"aof_enabled": "1", "rdb_last_bgsave_status": "err"})
    assert [each.verdict for each in failing] == ["ok", "change"]


async def test_the_load_is_that_of_others(tmp_path: Path) -> None:
    from support.valkey import empty_server  # noqa: PLC0415 - only this test needs it

    async with empty_server() as server:
        client = Client(server.url)
        (load,) = [each for each in await valkey._check_node(client) if each.name == "load"]
        client.close()
    assert int(load.value.split()[0]) <= 2


async def test_a_store_that_is_not_there_is_a_finding(tmp_path: Path) -> None:
    for url in (str(tmp_path / "none.db"), "http://127.0.0.1:1", "valkey://127.0.0.1:1/0"):
        ended = await Ff(url)("doctor", "--json")
        assert (ended.code, verdicts(ended.json)["opens"]) == (1, "change"), url
    assert not list(tmp_path.iterdir())


async def test_old_files_are_brought_up_to_date_when_that_is_asked_for(tmp_path: Path) -> None:
    newest = migrations()[-1][0]
    path = tmp_path / "work.db"
    ff = Ff(str(path))
    looked = await ff("migrate", "--look")
    assert (looked.code, path.exists()) == (1, False)
    assert (await ff.json("migrate"))["changed"] is True
    assert (await ff.json("migrate")) == {
        "store": str(path),
        "before": newest,
        "newest": newest,
        "changed": False,
    }
    with sqlite3.connect(path) as db:
        db.execute("pragma user_version = 9999")
    db.close()
    assert (await ff("migrate")).code == 4
    assert "upgrade it first" in (await ff("doctor")).out


async def test_who_looks_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "work.db"
    ff = Ff(str(path))
    await ff("migrate")
    old = migrations()[-1][0] - 1
    with sqlite3.connect(path) as db:
        db.execute(f"pragma user_version = {old}")
        ended = await ff("doctor")
        looked = await ff("migrate", "--look")
        assert db.execute("pragma user_version").fetchone() == (old,)
    db.close()
    assert (ended.code, "`ff migrate`" in ended.out) == (1, old > 0)
    assert (looked.code, "run `ff migrate`" in looked.out) == (1, True)


async def test_a_look_at_valkey_asks_the_server() -> None:
    assert (await Ff("valkey://127.0.0.1:1/0")("migrate", "--look")).code == 4
    async with empty_server() as server:
        ff = Ff(server.url)
        empty = await ff("migrate", "--look", "--json")
        assert (empty.code, empty.json["before"], empty.json["changed"]) == (1, 0, False)
        made = await ff.json("migrate")
        assert (made["before"], made["changed"]) == (0, True)
        assert (await ff.json("migrate", "--look"))["before"] == made["newest"]
        client = Client(server.url)
        await client.call("HSET", MARK, "format", 1)
        client.close()
        old = await ff("migrate", "--look")
        assert (old.code, old.err) == (4, "ff: format 1 was never released; use an empty database\n")


async def test_a_server_migrates_its_store_itself() -> None:
    ended = await Ff("http://127.0.0.1:1")("migrate")
    assert (ended.code, "when it starts" in ended.err) == (2, True)
