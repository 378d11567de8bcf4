"""The session of the guide: its commands are run as they stand there, and print what stands there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import curl
from support.process import started
from support.serving import Backend

pytestmark = pytest.mark.every_store
ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "http-session.md"
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "http://127.0.0.1:9090"
MARK = "\x1e"
VARYING = (
    (re.compile(r"\{fp:\d+\}:[0-9a-f-]{36}"), "ID"),
    (re.compile(r"\b1[0-9]{12}\b"), "TIME"),
)
"""What differs from run to run."""


def session() -> list[tuple[str, str]]:
    """Return each block of commands with what it prints."""
    found: list[tuple[str, str]] = []
    for kind, text in BLOCK.findall(GUIDE.read_text("utf-8")):
        if kind == "sh":
            found.append((text, ""))
        else:
            assert not found[-1][1], "output without commands"
            found[-1] = (found[-1][0], text)
    return found


def plain(text: str) -> str:
    for pattern, word in VARYING:
        text = pattern.sub(word, text)
    return text


@pytest.mark.parametrize("program", ["curl", "stand-in"])
def test_the_session_of_the_guide(tmp_path: Path, backend: Backend, program: str) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "python3").symlink_to(sys.executable)
    if program == "curl" and shutil.which("curl") is None:
        pytest.skip("there is no curl on this machine; the same commands run with a stand-in")
    if program == "stand-in":
        curl.install(tools)
    blocks = session()
    assert len(blocks) > 5
    script = f"printf '{MARK}'\n".join(commands for commands, _ in blocks)
    with started(tmp_path, *backend.flags) as server:
        server.wait_until_ready()
        address = f"http://127.0.0.1:{server.port}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script.replace(ADDRESS, address)],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert server.end() == 0
    assert (done.returncode, done.stderr) == (0, ""), done
    printed = done.stdout.replace(address, ADDRESS).split(MARK)
    assert [plain(text) for text in printed] == [plain(expected) for _, expected in blocks]
