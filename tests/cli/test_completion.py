"""What shells are told, and what bash makes of it."""

from __future__ import annotations

import subprocess

import pytest

from flowfabric.cli import main
from support.commands import Ff


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_shells_complete_every_command(shell: str) -> None:
    text = (await Ff("")("completion", shell)).out
    for word in (
        "inspect",
        "waitpoints",
        "follow",
        "keep-steps",
        "partition-collisions",
        "look",
        "suspended",
    ):
        assert word in text, word
    assert "while-read" not in text


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("ff wor", {"worker", "workers"}),
        ("ff replay --k", {"--keep-steps"}),
        ("ff admin re", {"repair"}),
        ("ff admin repair --l", {"--look"}),
        ("ff ps --state s", {"suspended", "skipped"}),
        ("ff completion z", {"zsh"}),
        ("ff nonsense x", set()),
    ],
)
def test_bash_completes(line: str, offered: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    words = line.split()
    asked = f"{script}\nCOMP_WORDS=({line})\nCOMP_CWORD={len(words) - 1}\n_ff\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""
    ended = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, timeout=20, check=True)
    assert (set(ended.stdout.split()), ended.stderr) == (offered, "")
