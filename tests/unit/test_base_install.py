"""The base install depends on msgspec alone: a program runs with it, and every door beyond names the extra it needs."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTRAS = (
    "aiohttp", "httptools", "libvalkey", "opentelemetry", "prometheus_client", "starlette", "uvicorn", "uvloop",
    "valkey", "yarl",
)  # fmt: skip
"""What is taken away."""
WITHOUT = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS}))\n"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT, encoding="utf-8")
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("FF_", "COVERAGE"))}
    return {**ours, "PYTHONPATH": str(tmp_path), "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}


def run(environ: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=environ["HOME"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_it_has_one_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [each.partition(">")[0] for each in project["dependencies"]] == ["msgspec"]


def test_the_first_program_runs(environ: dict[str, str]) -> None:
    ended = run(environ, str(ROOT / "examples" / "first_program.py"), "work.db")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "completed hello, world\n", "")


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        (("server",), "flowfabric[server]"),
        (("dev", "shop:app"), "flowfabric[server]"),
        (("ps", "--store", "valkey://127.0.0.1:1"), "pip install 'flowfabric[valkey]'"),
        (("ps", "--store", "valkey+cluster://127.0.0.1:1"), "pip install 'flowfabric[valkey]'"),
        (("ps", "--store", "http://127.0.0.1:1"), "pip install 'flowfabric[http]'"),
    ],
    ids=lambda part: part[-1] if isinstance(part, tuple) else "",
)
def test_a_door_names_its_extra(environ: dict[str, str], command: tuple[str, ...], extra: str) -> None:
    ended = run(environ, "-m", "flowfabric.cli", *command)
    assert ended.returncode != 0
    assert extra in ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr
