"""Every folder of examples runs as its README says: in processes of their own, on real stores."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.valkey import empty_server

EXAMPLES = Path(__file__).parents[2] / "examples"
AGENT_SAYS = "About durable execution: it keeps what is done, and does the rest."
SAYS = {
    "two_of_three": [
        "ada twice: suspended",
        "paid 100 to the printer, approved by ada and carol",
    ],
    "retry_and_cancel": [
        "http://example.org after 3 attempts",
        "failed: only http is spoken here",
        "cancelled: not wanted any more",
        "cleaned up: ['http://example.org']",
    ],
    "from_celery": ["3", "sent to ada", "receipt for: charged 20", "[0, 2, 4]", "completed"],
    "from_arq": ["16", "True True 16", "completed"],
}
FAILS_FIRST = {"retry_and_cancel", "from_celery", "from_arq"}
"""Those whose handlers fail and are tried again, which workers log with the traceback."""
SERVED = {"agent", "webhook_bridge", "flask_app", "django_app"}
"""Those that are tried out in tests of their own."""


def run(folder: str, store: str, *arguments: str, answer: str = "") -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / folder / "app.py"), *arguments],
        env={**os.environ, "FF_STORE": store, "AGENT_PACE": "0"},
        input=answer,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert folder in FAILS_FIRST or not ended.stderr
    return ended.stdout.splitlines()


def test_every_folder_has_a_readme_and_is_known_here() -> None:
    folders = {path.parent.name for path in EXAMPLES.glob("*/app.py")}
    assert folders == SAYS.keys() | SERVED
    assert folders == {path.parent.name for path in EXAMPLES.glob("*/README.md")}


@pytest.mark.parametrize("folder", sorted(SAYS))
def test_an_example_runs_and_runs_again(folder: str, tmp_path: Path) -> None:
    for _ in range(2):
        assert run(folder, str(tmp_path / "work.db")) == SAYS[folder]


@pytest.mark.parametrize("folder", sorted(SAYS))
async def test_an_example_runs_on_valkey(folder: str) -> None:
    async with empty_server() as server:
        assert await asyncio.to_thread(run, folder, server.url) == SAYS[folder]


@pytest.mark.parametrize(
    ("said", "end"), [("y\n", f"{AGENT_SAYS} (approved by you)"), ("n\n", "rejected by you")]
)
def test_the_agent_streams_and_asks(said: str, end: str, tmp_path: Path) -> None:
    lines = run("agent", str(tmp_path / "agent.db"), answer=said)
    assert lines[1:3] == ["[attempt 0]", f"{AGENT_SAYS} "]
    assert lines[-1] == end
