"""What docs/guides/deploying.md promises: the same program on every store, and only its address changes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowfabric import FlowFabric, FlowFabricError, open_store
from flowfabric.cli.main import build_parser
from support.process import started
from support.shell import blocks, shell
from support.valkey import shared_server
from support.valkey_cluster import shared_cluster

PROGRAM = Path(__file__).parents[2] / "examples" / "first_program.py"
GUIDE = "docs/guides/deploying.md"
STORES = ("sqlite", "valkey", "cluster", "http")


@pytest.mark.parametrize("store", ["SQLite", "Valkey", "Cluster"])
def test_a_store_is_made_and_looked_at(store: str, tmp_path: Path) -> None:
    (script,) = blocks(GUIDE, under=store)
    (written,) = re.findall("FF_STORE=(.*)", script)
    real = {
        "SQLite": lambda: f"{tmp_path}/shop.db",
        "Valkey": lambda: shared_server().url,
        "Cluster": lambda: shared_cluster().url,
    }[store]()
    files = store != "SQLite"  # the servers of the tests write none, which the doctor minds
    shown = shell(script, tmp_path, {written: real}, code=1 if files else 0)
    assert "ok      answers" in shown
    assert {*re.findall(r"^change .*?(\w+):", shown, re.MULTILINE)} == ({"appendonly"} if files else set())


def test_a_server_and_those_who_use_it(tmp_path: Path) -> None:
    serve, use = blocks(GUIDE, under="A server")
    (command,) = re.findall("^ff server (.*)$", serve, re.MULTILINE)
    flags = command.replace("/srv/shop/work.db", f"{tmp_path}/work.db").replace("0.0.0.0:9090", "127.0.0.1:0")
    token = "5a" * 32
    with started(tmp_path, *flags.split(), FF_API_TOKEN=token) as server:
        server.wait_until_ready()
        assert server.call("GET", "/v1/lanes")[0] == 401
        shown = shell(use, tmp_path, {"host:9090": f"127.0.0.1:{server.port}"}, FF_API_TOKEN=token)
    assert "ok      answers" in shown
    assert token not in shown


def test_the_unit_starts_what_there_is() -> None:
    (unit,) = blocks(GUIDE, "ini")
    (command,) = re.findall(r"^ExecStart=\S+/ff (.*)$", unit, re.MULTILINE)
    given = build_parser().parse_args(command.split())
    assert (given.app, given.grace) == ("shop.tasks:app", "10s")


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    match request.param:
        case "sqlite":
            yield f"sqlite:///{tmp_path}/work.db"
        case "valkey":
            yield shared_server().url
        case "cluster":
            yield shared_cluster().url
        case _:
            with started(tmp_path) as server:
                server.wait_until_ready()
                yield f"http://127.0.0.1:{server.port}"


def test_the_first_program_runs_on_every_store(url: str, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, str(PROGRAM), url],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "completed hello, world\n", "")


async def test_a_file_that_survives_a_loss_of_power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = FlowFabric("sqlite:///work.db?synchronous=FULL")

    @app.task
    async def add(x: int, y: int) -> int:
        return x + y

    async with app.worker():
        assert await (await app.submit(add, 1, 2)).result(timeout="30s") == 3
    assert (tmp_path / "work.db").exists()
    with pytest.raises(FlowFabricError, match="synchronous"):
        await open_store("sqlite:///work.db?synchronous=ALWAYS")
