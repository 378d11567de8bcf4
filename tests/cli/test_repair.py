"""`ff admin repair` on every store that several processes share."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from flowfabric.cli import main
from flowfabric.storage import open_store
from flowfabric.storage.valkey.connection.client import Client
from support.clock import ManualClock
from support.commands import Ff
from support.driver import Driver
from support.serving import Backend
from support.working import place_on


async def prepare(backend: Backend) -> None:
    store = await open_store(backend.url())
    await Driver(store, ManualClock()).create()
    await store.close()
    if backend.name == "sqlite":
        with sqlite3.connect(backend.url()) as file:
            file.execute("update tally set executions = 5")
        file.close()
    else:
        client = Client(backend.url())
        await client.call("HINCRBY", "ff:tally", "default\0default\0\0waiting", 4)
        client.close()


def test_damage_is_reported_and_repaired(backend: Backend, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(prepare(backend))

    def run(*arguments: str) -> tuple[int, list[str]]:
        code = main(["admin", "repair", *backend.flags, *arguments])
        return code, capsys.readouterr().out.splitlines()

    code, (told,) = run("--look", "--json")
    found = json.loads(told)
    assert (code, found["checked"], len(found["wrong"]), found["fixed"]) == (1, 1, 1, False)
    code, lines = run("--look")
    assert (code, lines[-1]) == (1, "1 executions compared: 1 entry wrong")
    assert "tall" in lines[0]
    assert run()[1][-1] == "1 executions compared: 1 entry repaired"
    assert run() == (0, ["1 executions compared: everything is as it should be"])
    assert run("--look")[0] == 0


@pytest.mark.parametrize(
    ("store", "problem"),
    [
        ("none.db", "there is no store at none.db"),
        ("valkey://127.0.0.1:1/0", "cannot be reached"),
        ("http://127.0.0.1:1", "no server answers"),
    ],
)
def test_a_store_that_cannot_be_opened_is_explained(
    store: str,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[Any],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["admin", "repair", "--store", store]) == 4
    assert problem in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


async def test_a_server_repairs_its_store_itself(tmp_path: Path) -> None:
    async with place_on("http", tmp_path) as place:
        ended = await Ff(place.url)("admin", "repair")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "ff: a server repairs its store every hour; name the store itself\n"
