"""What docs/guides/deploying.md promises: the same program on every store, and only its address changes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowfabric import FlowFabric, FlowFabricError, open_store
from support.process import started
from support.valkey import shared_server
from support.valkey_cluster import shared_cluster

PROGRAM = Path(__file__).parents[2] / "examples" / "first_program.py"
STORES = ("sqlite", "valkey", "cluster", "http")


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
