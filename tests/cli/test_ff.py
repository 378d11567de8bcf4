"""`ff` as users start it: in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import flowfabric
from flowfabric.cli import main
from support.serving import Backend


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
    assert "demo" in shown
    assert "demo-worker" not in shown


def test_a_path_that_cannot_be_used_is_explained(tmp_path: Path) -> None:
    ended = ff("demo", "--path", str(tmp_path / "missing" / "demo.db"))
    assert ended.returncode == 4
    assert ended.stderr.startswith("ff: ")
    assert "does its folder exist" in ended.stderr


def test_the_demonstration_survives_its_murder(tmp_path: Path) -> None:
    path = tmp_path / "demo.db"
    ended = ff("demo", "--path", str(path))
    lines = ended.stdout.splitlines()
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert not ended.stderr
    assert path.exists()

    def place(text: str) -> int:
        return next(number for number, line in enumerate(lines) if text in line)

    killed = place("in the middle of report")
    assert killed < place("expired") < place("reclaimed by") < place("passed at once")
    assert place("carol approves") < place("signal approved accepted")
    assert "\x1b" not in ended.stdout
    assert sum("completed" in line and "  completed  " in line for line in lines) == 5


@pytest.mark.usefixtures("interruptible")
def test_the_demonstration_goes_on_over_http(backend: Backend) -> None:
    process = subprocess.Popen(
        [
            sys.executable, "-m", "flowfabric.cli", "demo", "--serve",
            "--listen", "127.0.0.1:0", "--path", backend.url(),
        ],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    with process, process.stdout as said:
        try:
            address = next(line for line in said if "the server listens on " in line).split()[4].rstrip(",")
            body = b'{"kind": "thumbnail", "lane": "demo"}'
            request = urllib.request.Request(
                f"{address}/v1/submit", body, {"content-type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=10) as reply:
                name = json.loads(reply.read())["execution_id"][-8:]
            assert any(f"{name}     completed" in line for line in said)
            process.send_signal(signal.SIGINT)
            said.read()
            assert process.wait(20) == 0
        finally:
            process.kill()  # a failure must not leave it running, and the test waiting for it
