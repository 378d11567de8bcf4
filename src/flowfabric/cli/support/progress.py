"""Show the progress of a long command on standard error."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from contextlib import suppress
from typing import Final, Self, TextIO

from flowfabric.model.times import span

REDRAW_SECONDS: Final = 0.1
BAR_WIDTH: Final = 30
CLEAR_LINE: Final = "\r\x1b[K"


class ProgressLine:
    """A line on a terminal that shows a bar if the total is known, else only the time; it is erased at the end.

    ::

        async with ProgressLine("submitting", len(lines), quiet=session.json) as progress:
            ...
            progress.done += 1
    """

    def __init__(
        self, what: str, total: int = 0, *, quiet: bool = False, stream: TextIO | None = None
    ) -> None:
        self.what = what
        self.total = total
        self.done = 0
        self._stream = stream or sys.stderr
        self._is_shown = self._stream.isatty() and not quiet
        self._started_at = time.monotonic()
        self._drawing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._is_shown:
            self._drawing = asyncio.create_task(self._draw())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._drawing is not None:
            self._drawing.cancel()
            with suppress(asyncio.CancelledError):
                await self._drawing
            self._write("")

    def begin(self, what: str, total: int = 0) -> None:
        """Start the next phase."""
        self.what, self.total, self.done = what, total, 0

    async def _draw(self) -> None:
        while True:
            self._write(self.line())
            await asyncio.sleep(REDRAW_SECONDS)

    def line(self) -> str:
        """Return the text that is shown now."""
        took = span(round((time.monotonic() - self._started_at) * 1_000))
        if not self.total:
            return f"{self.what} … {took}"
        full = min(BAR_WIDTH, BAR_WIDTH * self.done // self.total)
        return f"{self.what} [{'#' * full}{'.' * (BAR_WIDTH - full)}] {self.done}/{self.total} {took}"

    def _write(self, text: str) -> None:
        room = shutil.get_terminal_size().columns - 1
        self._stream.write(f"{CLEAR_LINE}{text[:room]}")
        self._stream.flush()
