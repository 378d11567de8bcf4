"""The base install depends on msgspec alone: a program runs with it, and every door beyond names the extra it needs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from flowfabric.storage import extras
from flowfabric.storage.extras import install_command

ROOT = Path(__file__).parents[2]
EXTRAS = (
    "aiohttp",
    "httptools",
    "libvalkey",
    "opentelemetry",
    "prometheus_client",
    "starlette",
    "uvicorn",
    "uvloop",
    "valkey",
    "yarl",
)
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
        (("server",), "server"),
        (("dev", "shop:app"), "server"),
        (("ps", "--store", "valkey://127.0.0.1:1"), "valkey"),
        (("ps", "--store", "valkey+cluster://127.0.0.1:1"), "valkey"),
        (("ps", "--store", "http://127.0.0.1:1"), "http"),
    ],
    ids=lambda part: part[-1] if isinstance(part, tuple) else "",
)
def test_a_door_names_its_extra(environ: dict[str, str], command: tuple[str, ...], extra: str) -> None:
    ended = run(environ, "-m", "flowfabric.cli", *command)
    assert ended.returncode != 0
    assert f": {install_command(extra)}" in ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ("", "pip install 'flowfabric[http]'"),
        ('{"url": "file:///src/my%20clone", "dir_info": {}}', "pip install '/src/my clone[http]'"),
        ('{"url": "file:///src", "dir_info": {"editable": true}}', "pip install -e '/src[http]'"),
        (
            '{"url": "https://example.org/f.git", "vcs_info": {"vcs": "git", "commit_id": "1"}}',
            "pip install 'flowfabric[http] @ git+https://example.org/f.git'",
        ),
        (
            '{"url": "file:///f-0.1-py3-none-any.whl", "archive_info": {}}',
            "pip install 'flowfabric[http] @ file:///f-0.1-py3-none-any.whl'",
        ),
    ],
)
def test_the_command_installs_from_where_the_package_came(
    origin: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "_origin", lambda: origin)
    assert install_command("http") == command


def test_the_command_of_this_clone_installs_what_it_names() -> None:
    words = shlex.split(install_command("http"))
    assert words[:2] == ["pip", "install"]
    folder, _, extra = words[-1].partition("[")
    assert (Path(folder), extra) == (ROOT, "http]")


def test_the_readme_explains_every_extra_and_guides_name_real_ones() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"])
    table = (ROOT / "README.md").read_text("utf-8").partition("| Extra |")[2].partition("\n\n")[0]
    assert extras - {"uvloop"} == set(re.findall(r"^\| `([a-z]+)` \|", table, re.MULTILINE))
    for page in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/README.md")):
        text = page.read_text("utf-8")
        assert "pip install 'flowfabric" not in text, page  # it is not on PyPI
        for named in re.findall(r"/path/to/flowfabric\[([a-z,]+)\]", text):
            assert set(named.split(",")) <= extras, page
