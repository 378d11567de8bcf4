"""A program on a terminal of its own, as a person sits before it: what it shows, and what is typed."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

INTERRUPT = "\x03"
"""What Ctrl-C types."""
LIMIT_SECONDS = 25
"""What is not shown by then will not be: then it is told what was."""


class Terminal:
    """One end of a pseudo-terminal."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._woken = asyncio.Event()
        self._ended = False
        self.shown = ""
        self._seen = 0
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    def _read(self) -> None:
        data = b""
        with suppress(OSError):  # the program has gone
            data = os.read(self._descriptor, 65_536)
        if not data:
            self._ended = True
            asyncio.get_running_loop().remove_reader(self._descriptor)
        self.shown += data.decode("utf-8", "replace").replace("\r\n", "\n")
        self._woken.set()

    def type(self, text: str) -> None:
        """Type something."""
        os.write(self._descriptor, text.encode())

    async def until(self, pattern: str) -> re.Match[str]:
        """Wait until something is shown after what was waited for before."""
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                return await self._until(pattern)
        except TimeoutError:
            raise AssertionError(f"waiting for {pattern!r}, this is all: {self.shown}") from None

    async def _until(self, pattern: str) -> re.Match[str]:
        while True:
            found = re.compile(pattern).search(self.shown, self._seen)
            if found:
                self._seen = found.end()
                return found
            if self._ended:
                raise AssertionError(f"{pattern!r} was not shown: {self.shown}")
            self._woken.clear()
            await self._woken.wait()

    async def end(self) -> None:
        """Read to the end."""
        while not self._ended:
            self._woken.clear()
            await self._woken.wait()

    def close(self) -> None:
        """Take the terminal away."""
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)


@asynccontextmanager
async def on_terminal(
    *command: str, folder: Path | str, environ: dict[str, str], columns: int = 200
) -> AsyncIterator[tuple[asyncio.subprocess.Process, Terminal]]:
    """Start a program on a terminal, and be sure that it ends."""
    # Sizes of the terminal that the tests run on are not those of this one; and Ctrl-C would also reach what measures
    # coverage, while it saves.
    ignored = ("COLUMNS", "LINES", "COVERAGE_PROCESS")
    environ = {name: value for name, value in environ.items() if not name.startswith(ignored)}
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    # A session of its own whose terminal this is, so that Ctrl-C reaches everybody in front of it.
    begin = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        begin,
        *command,
        cwd=folder,
        env=environ,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    terminal = Terminal(ours)
    try:
        yield process, terminal
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        terminal.close()
