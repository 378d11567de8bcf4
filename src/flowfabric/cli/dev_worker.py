"""The worker of `ff dev`: a process of its own, started anew when it was killed, code changed, or it is asked for."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import Process
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from flowfabric.cli.loading import folder_of
from flowfabric.cli.screen import Screen

LOOK_SECONDS: Final = 0.5
"""How often files are looked at: there is no way to be told that works everywhere."""
LEASE: Final = "3s"
"""Short, so that nobody has to wait long for the work of a worker that was killed."""
END_SECONDS: Final = 5.0
SHORT_LIFE: Final = 1.0
"""Workers that are killed sooner are not started faster than this."""


class DevWorker:
    """One worker process at a time, each with a name of its own."""

    def __init__(self, target: str, url: str, screen: Screen) -> None:
        self._target = target
        self._url = url
        self._screen = screen
        self._number = 0
        self._process: Process | None = None
        self._again = asyncio.Event()

    @property
    def name(self) -> str:
        """What the present one is called."""
        return f"worker-{self._number}"

    @property
    def runs(self) -> bool:
        """Whether there is a worker now."""
        return self._process is not None and self._process.returncode is None

    async def keep(self) -> None:
        """Start a worker, and another when it was killed or that is wanted; one that fails waits for a change."""
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            process = await self._start()
            code = await process.wait()
            if self._again.is_set():
                continue
            if code < 0:
                self._say(
                    f"{self.name} was killed (process {process.pid}); another one starts, and takes over when the "
                    f"lease of {LEASE} has run out",
                    "red",
                )
                await asyncio.sleep(max(0.0, SHORT_LIFE - (clock() - began)))
            else:
                self._say(f"{self.name} ended with {code}; a change, or r and Enter, starts it anew", "red")
                await self._again.wait()

    async def _start(self) -> Process:
        self._again.clear()
        self._number += 1
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "flowfabric.cli", "worker", self._target, "--store", self._url,
            "--name", self.name, "--lease", LEASE, "--grace", "1s", "--no-engine", "--log-level", "warning",
            "--while-read",
            stdin=asyncio.subprocess.PIPE, stdout=self._screen.out, start_new_session=True,
        )  # fmt: skip
        self._say(f"{self.name} runs {self._target} (process {self._process.pid})", "dim")
        return self._process

    def kill(self) -> None:
        """Kill it as a machine does that loses its power."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    def restart(self, why: str) -> None:
        """Let it end and another one begin."""
        self._say(f"{self.name} is started anew: {why}", "yellow")
        self._again.set()
        self._stop()

    def _stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.terminate()

    async def end(self) -> None:
        """Stop it for good."""
        self._stop()
        if self._process is None:
            return
        try:
            await asyncio.wait_for(self._process.wait(), END_SECONDS)
        except TimeoutError:  # a handler that nothing stops
            self.kill()
            await self._process.wait()

    def _say(self, text: str, colour: str) -> None:
        self._screen.paragraph(text, colour)

    async def watch(self) -> None:
        """Start it anew whenever a file with code has changed."""
        folder = folder_of(self._target)
        seen = await asyncio.to_thread(_stamps, folder)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = await asyncio.to_thread(_stamps, folder)
            changed = sorted(path for path in seen.keys() | now.keys() if seen.get(path) != now.get(path))
            if changed:
                self.restart(f"{changed[0]} has changed" + (" and others" if changed[1:] else ""))
            seen = now


def _stamps(folder: Path | None) -> dict[str, int]:
    """Return when each file with code was changed: below the present folder, and beside the app."""
    found = dict(_files(""))
    if folder is not None and not folder.is_relative_to(Path.cwd()):
        found |= _files(f"{folder}/")
    return found


def _files(folder: str) -> Iterator[tuple[str, int]]:
    """Every file with code below a folder, and when it was changed."""
    with suppress(OSError), os.scandir(folder or ".") as entries:
        for entry in entries:
            name = f"{folder}{entry.name}"
            if entry.name.startswith((".", "__pycache__", "node_modules")):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _files(f"{name}/")
            elif entry.name.endswith(".py"):
                yield name, entry.stat().st_mtime_ns
