"""Plain lines for people: colours on a terminal only, tables that line up."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final, TextIO

COLOURS: Final = {
    "dim": 2,
    "bold": 1,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "blue": 34,
    "magenta": 35,
    "cyan": 36,
}


class Screen:
    """Writes lines to one place."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._colours = self._out.isatty() and "NO_COLOR" not in os.environ

    def paint(self, text: str, colour: str) -> str:
        """Colour some text, where colours are wanted."""
        return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m" if self._colours and colour else text

    def line(self, text: str = "") -> None:
        """Write one line, at once."""
        print(text, file=self._out, flush=True)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write rows under a head, each column as wide as it needs to be."""
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        for place, row in enumerate((head, *rows)):
            text = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            self.line("  " + (text if place else self.paint(text, "bold")))
