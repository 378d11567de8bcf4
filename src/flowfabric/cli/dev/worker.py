"""The worker process of `ff dev`, which is restarted after a kill, a change of code, or on request."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import Process
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from flowfabric.cli.support.load_app import folder_of
from flowfabric.cli.support.output import Output

POLL_SECONDS: Final = 0.5
"""How often files are checked; notifications of changes are not available on every platform."""
LEASE: Final = "3s"
"""Short, so that the work of a killed worker is soon taken over."""
STOP_SECONDS: Final = 5.0
MIN_RESTART_SECONDS: Final = 1.0
"""The shortest time between two starts."""


class DevWorker:
    """Runs one worker process at a time, each with a new name."""

    def __init__(self, target: str, url: str, output: Output) -> None:
        self._target = target
        self._url = url
        self._output = output
        self._number = 0
        self._process: Process | None = None
        self._restart = asyncio.Event()

    @property
    def name(self) -> str:
        """The name of the current worker."""
        return f"worker-{self._number}"

    @property
    def is_running(self) -> bool:
        """Whether a worker process is running."""
        return self._process is not None and self._process.returncode is None

    async def run(self) -> None:
        """Start a worker, and another one after a kill or on request; after a failure, wait for a request."""
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            process = await self._start()
            code = await process.wait()
            if self._restart.is_set():
                continue
            if code < 0:
                self._output.paragraph(
                    f"{self.name} was killed (process {process.pid}); another one starts, and takes over when the "
                    f"lease of {LEASE} has run out",
                    "red",
                )
                await asyncio.sleep(max(0.0, MIN_RESTART_SECONDS - (clock() - began)))
            else:
                self._output.paragraph(
                    f"{self.name} ended with {code}; a change, or r and Enter, restarts it", "red"
                )
                await self._restart.wait()

    async def _start(self) -> Process:
        self._restart.clear()
        self._number += 1
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "flowfabric.cli",
            "worker",
            self._target,
            "--store",
            self._url,
            "--name",
            self.name,
            "--lease",
            LEASE,
            "--grace",
            "1s",
            "--no-engine",
            "--log-level",
            "warning",
            "--while-read",
            stdin=asyncio.subprocess.PIPE,
            stdout=self._output.stream,
            start_new_session=True,
        )
        self._output.paragraph(f"{self.name} runs {self._target} (process {self._process.pid})", "dim")
        return self._process

    def kill(self) -> None:
        """Kill the worker process with SIGKILL, as a crash would."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    def restart(self, reason: str) -> None:
        """Stop the current worker and start another one."""
        self._output.paragraph(f"{self.name} is restarted: {reason}", "yellow")
        self._restart.set()
        self._stop()

    def _stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.terminate()

    async def end(self) -> None:
        """Stop the current worker, and wait for its end."""
        self._stop()
        if self._process is None:
            return
        try:
            await asyncio.wait_for(self._process.wait(), STOP_SECONDS)
        except TimeoutError:  # a handler does not stop
            self.kill()
            await self._process.wait()

    async def watch(self) -> None:
        """Restart the worker whenever a Python file changes."""
        folder = folder_of(self._target)
        seen = await asyncio.to_thread(_modification_times, folder)
        while True:
            await asyncio.sleep(POLL_SECONDS)
            now = await asyncio.to_thread(_modification_times, folder)
            changed = sorted(path for path in seen.keys() | now.keys() if seen.get(path) != now.get(path))
            if changed:
                self.restart(f"{changed[0]} has changed" + (" and others" if changed[1:] else ""))
            seen = now


def _modification_times(folder: Path | None) -> dict[str, int]:
    """Return the modification time of each Python file below the current folder and the app's folder."""
    found = dict(_files(""))
    if folder is not None and not folder.is_relative_to(Path.cwd()):
        found |= _files(f"{folder}/")
    return found


def _files(folder: str) -> Iterator[tuple[str, int]]:
    """Yield each Python file below a folder, and its modification time."""
    with suppress(OSError), os.scandir(folder or ".") as entries:
        for entry in entries:
            name = f"{folder}{entry.name}"
            if entry.name.startswith((".", "__pycache__", "node_modules")):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _files(f"{name}/")
            elif entry.name.endswith(".py"):
                yield name, entry.stat().st_mtime_ns
