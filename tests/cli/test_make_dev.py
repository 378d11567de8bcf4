"""What `make dev` shows: an agent whose worker is killed, whose work goes on, and which a person answers."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from support.serving import Backend
from support.terminal import INTERRUPT, on_terminal

ROOT = Path(__file__).parents[2]


def recipe() -> list[str]:
    """What `make dev` runs, with the Python of the tests."""
    asked = ["make", "--no-print-directory", "--dry-run", "dev"]  # it may be a `make` that runs the tests
    lines = subprocess.run(
        asked, cwd=ROOT, capture_output=True, text=True, timeout=20, check=True
    ).stdout.splitlines()
    program, *arguments = shlex.split(lines[-1])
    assert program.endswith("/ff")
    return [sys.executable, "-m", "flowfabric.cli", *arguments]


def test_the_readme_needs_five_commands() -> None:
    block = (ROOT / "README.md").read_text("utf-8").partition("## See it work")[2].split("```")[1]
    commands = [line.partition("#")[0].strip() for line in block.strip().splitlines()]
    # What `make dev` does, and what the two letters do, is tried out below.
    assert commands == ["git clone URL flowfabric", "cd flowfabric", "make dev", "k", "a"]


def test_the_first_make_says_what_it_installs() -> None:
    asked = ["make", "--no-print-directory", "--dry-run", "--always-make", "install"]
    said = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=20, check=True).stdout
    assert 'echo "installing FlowFabric, with its extras and the tools for its tests, into .venv' in said
    steps = re.findall(r'echo "\[(\d)/(\d)\]', said)
    assert [int(each) for each, _ in steps] == list(range(1, int(steps[0][1]) + 1))
    (long,) = (line for line in said.splitlines() if "--group dev" in line)
    assert "--quiet" not in long  # pip's own lines show how far it is


def environ(store: str, pace: str) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("FF_")}
    return {
        **ours,
        "FF_STORE": store,
        "FF_LISTEN_ADDR": "127.0.0.1:0",
        "AGENT_PACE": pace,
        "NO_COLOR": "1",
    }


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_from_a_killed_worker_to_an_approved_run(backend: Backend) -> None:
    async with on_terminal(*recipe(), folder=ROOT, environ=environ(backend.url(), "0.4")) as (dev, terminal):
        (address,) = (await terminal.until(r"open (http://127.0.0.1:\d+)/ in a browser")).groups()
        assert f"{address} serves " in terminal.shown
        await terminal.until("type k and Enter to kill the worker")
        await terminal.until("submitted")
        await terminal.until("claimed by worker-1")
        await terminal.until("step look up 2 stored")
        await terminal.until("» About volcanoes: ")  # it writes, word by word, on one line
        terminal.type("k\n")
        await terminal.until("worker-1 was killed")
        await terminal.until("the lease of worker-1 expired")
        await terminal.until(
            "reclaimed by worker-2, which passes the finished steps: plan, look up 1, look up 2"
        )
        before = len(terminal.shown)
        await terminal.until(r"the handler runs again: .* (is|are) superseded")
        await terminal.until("» About volcanoes: it keeps what is done, and does the ")
        await terminal.until("step write stored")
        await terminal.until("suspended")
        (short,) = (
            await terminal.until(r"asks you: .*\n +ff approve ([0-9a-f]{8}-[0-9a-f]{4}) --as you")
        ).groups()
        assert "step plan stored" not in terminal.shown[before:]
        terminal.type("a\n")
        await terminal.until(f"ff approve {short} --as you")
        await terminal.until("step publish stored")
        await terminal.until('completed: ".*approved by you')
        workers = [int(pid) for pid in re.findall(r"runs .* .process (\d+).", terminal.shown)]
        assert len(workers) == 2
        terminal.type(INTERRUPT)
        await terminal.end()
        assert await dev.wait() == 0
        assert not any(map(alive, workers))
    assert "Traceback" not in terminal.shown
    assert terminal.shown.endswith("\nended by Ctrl-C\n")


async def test_an_answer_may_come_later_and_be_no(tmp_path: Path) -> None:
    there = environ(str(tmp_path / "work.db"), "0")
    async with on_terminal(*recipe(), folder=ROOT, environ=there) as (dev, terminal):
        await terminal.until("asks you: ")
        terminal.type("q\n")
        assert await dev.wait() == 0
    async with on_terminal(*recipe(), folder=ROOT, environ=there) as (dev, terminal):
        await terminal.until("1 waitpoints are open from before")
        await terminal.until("research .* asks you: ")  # what was asked before can be answered now
        await terminal.until(
            "not submitted again: research question=volcanoes, because .* is still suspended"
        )
        terminal.type("k\n")
        await terminal.until("nothing runs now: the worker is killed, but it had no work")
        await terminal.until("worker-2 runs")
        terminal.type("n\n")
        await terminal.until('completed: "rejected by you"')
        terminal.type("s\n")
        await terminal.until("ff submit research question=volcanoes")
        await terminal.until("asks you: ")
        terminal.type(INTERRUPT)
        await terminal.end()
        assert await dev.wait() == 0


async def test_every_line_fits_a_narrow_terminal(tmp_path: Path) -> None:
    there = environ(str(tmp_path / "work.db"), "0")
    async with on_terminal(*recipe(), folder=ROOT, environ=there, columns=80) as (dev, terminal):
        await terminal.until("asks you: ")
        await terminal.until("--as you")
        terminal.type("q\n")
        await terminal.end()
        assert await dev.wait() == 0
    long = [line for line in terminal.shown.splitlines() if len(line) > 80 and " " in line.strip()]
    assert long == [], terminal.shown


@pytest.mark.parametrize("letter", ["a", "n"])
async def test_an_answer_that_nobody_asked_for(letter: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "flowfabric.cli", "dev", "examples.agent.app"]
    there = environ(str(tmp_path / "work.db"), "0")
    async with on_terminal(*command, folder=ROOT, environ=there) as (dev, terminal):
        await terminal.until("in another terminal: ff submit KIND NAME=VALUE")
        terminal.type(f"{letter}\n")
        await terminal.until("nothing asks for an answer now")
        terminal.type("q\n")
        assert await dev.wait() == 0
