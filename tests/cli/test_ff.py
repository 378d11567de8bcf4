"""`ff` as users start it: in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import flowfabric
from flowfabric.cli import main
from flowfabric.cli.main import build_parser
from flowfabric.cli.support.parsers import subcommands


def ff(*arguments: str, timeout: float = 50) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "flowfabric.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def test_version() -> None:
    assert ff("--version").stdout == f"flowfabric {flowfabric.__version__}\n"


def test_help_names_what_is_for_users(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert "doctor" in shown


def test_a_path_that_cannot_be_used_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = ff("submit", "x", "--store", str(tmp_path / "file" / "work.db"))
    assert ended.returncode == 4
    assert ended.stderr.startswith("ff: ")
    assert ended.stderr.count("\n") == 1


def test_every_command_that_tells_something_has_it_as_json() -> None:
    without = set()
    for name, _, parser in subcommands(build_parser()):
        for inner, _, command in [*subcommands(parser)] or [("", "", parser)]:
            if "--json" not in command.format_help():
                without.add(f"{name} {inner}".strip())
    assert without == {"completion"}  # it prints a script
