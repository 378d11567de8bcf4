"""`ff server` as a process of its own, for tests that look at it from outside."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

LISTENING = re.compile(r"HTTP API listening addr=127\.0\.0\.1:(\d+)")


class Process:
    """A server of our own, and what it has said so far."""

    def __init__(self, folder: Path, *arguments: str, **environ: str) -> None:
        self.log = folder / f"server-{time.monotonic_ns()}.log"
        ours = {name: value for name, value in os.environ.items() if not name.startswith("FF_")}
        self._out = self.log.open("w")
        self.began = time.monotonic()
        self.child = subprocess.Popen(
            [sys.executable, "-m", "flowfabric.cli", "server", *arguments],
            env={**ours, "HOME": str(folder), "XDG_DATA_HOME": str(folder), **environ},
            stderr=self._out,
            stdout=self._out,
        )
        self.port = 0

    def wait_until_ready(self) -> float:
        while time.monotonic() - self.began < 20:
            found = LISTENING.search(self.said())
            if found:
                self.port = int(found[1])
                with suppress(OSError):
                    if self.call("GET", "/healthz")[0] == 200:
                        return time.monotonic() - self.began
            assert self.child.poll() is None, self.said()
            time.sleep(0.02)
        raise AssertionError(self.said())

    def call(self, method: str, path: str, body: Any = None, *, timeout: float = 20) -> tuple[int, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            None if body is None else json.dumps(body).encode(),
            {"content-type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout) as reply:
                return reply.status, json.loads(reply.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def pids(self) -> list[int]:
        """The processes that a server with several of them has started."""
        children = Path(f"/proc/{self.child.pid}/task/{self.child.pid}/children").read_text("utf-8")
        return [int(pid) for pid in children.split()]

    def submit(self, **fields: Any) -> str:
        status, answer = self.call("POST", "/v1/submit", {"kind": "x", **fields})
        assert status == 201, answer
        execution_id: str = answer["execution_id"]
        return execution_id

    def said(self) -> str:
        return self.log.read_text()

    def end(self, number: int = signal.SIGTERM, *, within: float = 15) -> int:
        self.child.send_signal(number)
        return self.child.wait(within)

    def close(self) -> None:
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait(10)
        self._out.close()


@contextmanager
def started(folder: Path, *arguments: str, **environ: str) -> Iterator[Process]:
    """Start a server on a free port, and be sure that it ends."""
    listen = () if "--listen" in arguments else ("--listen", "127.0.0.1:0")
    process = Process(folder, *listen, *arguments, **environ)
    try:
        yield process
    finally:
        process.close()


def refused(folder: Path, *arguments: str, **environ: str) -> tuple[int, str]:
    with started(folder, *arguments, **environ) as process:
        return process.child.wait(20), process.said()
