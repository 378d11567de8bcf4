"""How far long work has come: one line on standard error, on a terminal only, and gone when it is done."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from contextlib import suppress
from typing import Final, Self, TextIO

from flowfabric.model.times import span

EVERY_SECONDS: Final = 0.1
WIDE: Final = 30
CLEAR: Final = "\r\x1b[K"


class Progress:
    """A bar when it is known how much there is to do, else only the time that it takes.

    ::

        async with Progress("submitting", len(lines), quiet=desk.json) as progress:
            ...
            progress.done += 1
    """

    def __init__(self, what: str, total: int = 0, *, quiet: bool = False, out: TextIO | None = None) -> None:
        self.what = what
        self.total = total
        self.done = 0
        self._out = out or sys.stderr
        self._shown = self._out.isatty() and not quiet
        self._began = time.monotonic()
        self._drawing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._shown:
            self._drawing = asyncio.create_task(self._draw())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._drawing is not None:
            self._drawing.cancel()
            with suppress(asyncio.CancelledError):
                await self._drawing
            self._write("")

    def begin(self, what: str, total: int = 0) -> None:
        """Go on with something else."""
        self.what, self.total, self.done = what, total, 0

    async def _draw(self) -> None:
        while True:
            self._write(self.line())
            await asyncio.sleep(EVERY_SECONDS)

    def line(self) -> str:
        """What is shown now."""
        took = span(round((time.monotonic() - self._began) * 1_000))
        if not self.total:
            return f"{self.what} … {took}"
        full = min(WIDE, WIDE * self.done // self.total)
        return f"{self.what} [{'#' * full}{'.' * (WIDE - full)}] {self.done}/{self.total} {took}"

    def _write(self, text: str) -> None:
        room = shutil.get_terminal_size().columns - 1
        self._out.write(f"{CLEAR}{text[:room]}")
        self._out.flush()
