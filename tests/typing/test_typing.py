"""Wrong arguments are errors before anything runs, for both type checkers; neither needs the network."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.checking import ROOT, SECONDS, run

CALLS = Path(__file__).with_name("calls.py")


def check(checker: str, source: str, folder: Path) -> list[tuple[int, str]]:
    """Return what a checker has against a program: lines, and what is wrong there."""
    program = folder / "program.py"
    program.write_text(source, encoding="utf-8")
    return {"mypy": _mypy, "pyright": _pyright}[checker](program, folder)


def _mypy(program: Path, folder: Path) -> list[tuple[int, str]]:
    ended = run("mypy", "--strict", "--output", "json", str(program), folder=folder)
    assert ended.returncode in {0, 1}, ended.stderr
    found = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    return [(each["line"], each["message"]) for each in found if each["severity"] == "error"]


def _pyright(program: Path, folder: Path) -> list[tuple[int, str]]:
    settings = {
        "typeCheckingMode": "strict",
        "reportUnnecessaryTypeIgnoreComment": "error",
        "extraPaths": [str(ROOT / "src")],
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    ended = run("pyright", "--outputjson", "--pythonpath", sys.executable, folder=folder)
    found = json.loads(ended.stdout)["generalDiagnostics"]
    return [
        (each["range"]["start"]["line"] + 1, each["message"]) for each in found if each["severity"] == "error"
    ]


@pytest.mark.timeout(SECONDS + 10)
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_checker_knows_tasks(checker: str, tmp_path: Path) -> None:
    source = CALLS.read_text(encoding="utf-8")
    assert check(checker, source, tmp_path) == []
    # The other way round: what is ignored above is wrong, line by line.
    wrong = [number for number, line in enumerate(source.splitlines(), 1) if "# type: ignore" in line]
    bare = "\n".join(line.partition("  # type: ignore")[0] for line in source.splitlines())
    assert sorted({line for line, _ in check(checker, bare, tmp_path)}) == wrong
