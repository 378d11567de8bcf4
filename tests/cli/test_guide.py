"""The guide of `ff`: it names every command and code, and its session runs as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flowfabric.cli.main import build_parser
from flowfabric.cli.support.exit_codes import ExitCode
from flowfabric.cli.support.parsers import subcommands
from support.serving import Backend

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "cli.md"
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "\x1e"
VARYING = (
    (re.compile(r"\{fp:\d+\}:[0-9a-f-]{36}"), "ID"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}\b"), "SHORT"),
    (re.compile(r"\b\d+(ms|s|m) ago"), "AGO"),
    (re.compile(r"\d\d:\d\d:\d\d\.\d{3}Z"), "TIME"),
    (re.compile(" +"), " "),
)
"""What differs from run to run."""


def plain(text: str) -> str:
    for pattern, word in VARYING:
        text = pattern.sub(word, text)
    return text


def test_the_guide_names_every_command_and_code() -> None:
    text = GUIDE.read_text("utf-8")
    table = text.partition("| What you want")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z]+)`", table)) == {name for name, _, _ in subcommands(build_parser())}
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)] == sorted(ExitCode)


@pytest.mark.timeout(120)  # a dozen processes, one after the other
def test_the_session_of_the_guide(tmp_path: Path, backend: Backend) -> None:
    text = GUIDE.read_text("utf-8")
    (tmp_path / "shop.py").write_text(text.partition("```python\n")[2].partition("```")[0], "utf-8")
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "python3").symlink_to(sys.executable)
    (tools / "ff").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m flowfabric.cli "$@"\n', "utf-8")
    (tools / "ff").chmod(0o755)
    found = BLOCK.findall(text)
    scripts, printed = (
        [each for kind, each in found if kind == "sh"],
        [each for kind, each in found if kind == "text"],
    )
    assert len(scripts) == len(printed) > 3
    script = f"printf '{MARK}'\n".join(scripts).replace("work.db", backend.url())
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("FF_", "COLUMNS"))}
    done = subprocess.run(
        ["bash", "-uo", "pipefail", "-c", f"trap 'kill %1 2>/dev/null' EXIT\n{script}"],
        cwd=tmp_path,
        env={
            **environ,
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    note, waited = plain(done.stderr).splitlines()
    assert note.startswith("note: no worker has published publish yet"), done
    assert waited == "ID"
    assert [plain(each) for each in done.stdout.split(MARK)] == [plain(each) for each in printed]
