"""Every example runs as it stands, in a process of its own; the README shows the first one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = {path.name: path for path in sorted((ROOT / "examples").glob("*.py"))}
SAYS = {
    "first_program.py": "completed hello, world\n",
    "by_hand.py": "completed hello, world\n",
    "approval.py": "suspended; no worker is kept busy while it waits\napproved by carol\n",
}


def test_every_example_is_known_here() -> None:
    assert SAYS.keys() == EXAMPLES.keys()


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_example_runs_and_runs_again(name: str, tmp_path: Path) -> None:
    for _ in range(2):
        ended = subprocess.run(
            [sys.executable, "-W", "error", str(EXAMPLES[name]), "work.db"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, SAYS[name], "")


def test_the_readme_shows_the_first_program() -> None:
    program = EXAMPLES["first_program.py"].read_text(encoding="utf-8")
    body = program[program.index("import asyncio") :]
    assert body in (ROOT / "README.md").read_text(encoding="utf-8")
