"""Write text for people and JSON for programs; colours and wrapping only on a terminal."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, TextIO

import msgspec

from flowfabric.cli.support.table import GAP, format_table
from flowfabric.cli.support.text import printable, wrap

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
STATE_COLOURS: Final = {
    "active": "cyan",
    "suspended": "magenta",
    "delayed": "yellow",
    "completed": "green",
    "failed": "red",
    "cancelled": "red",
    "expired": "red",
}
WORDS: Final = re.compile(r"\n|[^\S\n]+|\S+")
CURSOR_HOME: Final = "\x1b[H"
CLEAR_LINE: Final = "\x1b[K"
CLEAR_BELOW: Final = "\x1b[J"
CLEAR_TERMINAL: Final = "\x1b[2J"


class Output:
    """Writes lines, tables and JSON documents to a stream (standard output)."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream: Final = stream or sys.stdout
        self.is_terminal = self.stream.isatty()
        self._has_colours = self.is_terminal and not os.environ.get("NO_COLOR")
        self.is_line_open = False
        """Whether the last line has no line break yet."""
        self._column = 0
        """Where the next piece of the open line begins."""

    @property
    def width(self) -> int:
        """The width of a line; 0 if it is unlimited, because a program reads it."""
        if self.is_terminal:
            return shutil.get_terminal_size().columns
        columns = os.environ.get("COLUMNS", "")
        return int(columns) if columns.isascii() and columns.isdigit() else 0

    def paint(self, text: str, colour: str) -> str:
        """Colour text, if the output has colours."""
        return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m" if self._has_colours and colour else text

    def paint_state(self, state: str) -> str:
        """Colour the name of a state, and leave any other text alone."""
        return self.paint(state, STATE_COLOURS.get(state.strip(), ""))

    def line(self, text: str = "") -> None:
        """Write one line and flush it."""
        self.close_line()
        # In one piece, because other processes write to the same terminal.
        print(f"{text}\n", end="", file=self.stream, flush=True)

    def paragraph(self, text: str, colour: str = "", head: str = "", column: int = 0) -> None:
        """Write wrapped text after a head that is `column` characters wide."""
        lines = wrap(text, self.width - column if self.width else 0)
        for index, line in enumerate(lines):
            self.line(f"{' ' * column if index else head}{self.paint(line, colour)}".rstrip())

    def write(self, text: str, colour: str = "", head: str = "", column: int = 0) -> None:
        """Write a piece of a line; the first piece comes after a head that is `column` characters wide.

        On a terminal the line stays open for the next piece, and text that does not fit goes on below its
        beginning. Elsewhere each piece is a line of its own.
        """
        if not self.is_line_open:
            print(head, end="", file=self.stream)
            self._column = column
        self.is_line_open = self.is_terminal
        shown = self._wrap_piece(text, column) if self.is_line_open else text
        print(self.paint(shown, colour), end="" if self.is_line_open else "\n", file=self.stream, flush=True)

    def _wrap_piece(self, text: str, column: int) -> str:
        """Wrap text that begins at the current column of the open line."""
        shown = ""
        for word in WORDS.findall(text):
            is_full = self._column + len(word) > self.width and self._column > column
            if word == "\n" or is_full:
                shown += f"\n{' ' * column}"
                self._column = column
            if word != "\n" and not (is_full and word.isspace()):
                shown += word
                self._column += len(word)
        return shown

    def close_line(self) -> None:
        """End the open line, if there is one."""
        if self.is_line_open:
            self.is_line_open = False
            print(file=self.stream)

    def json(self, value: Any) -> None:
        """Write one JSON document: indented on a terminal, else on one line."""
        text = msgspec.json.encode(value)
        self.line((msgspec.json.format(text) if self.is_terminal else text).decode())

    def table(
        self,
        head: Sequence[str],
        rows: Sequence[Sequence[str]],
        indent: str = "",
        *,
        optional: int = 0,
        notes: Sequence[str] = (),
    ) -> None:
        """Write rows under a head; the last `optional` columns shrink first where there is no room for all.

        Each row is followed by its note, if it has one.
        """
        room = self.width - len(indent) if self.width else 0
        for index, cells in enumerate(format_table(head, rows, room, optional)):
            text = GAP.join(self.paint_state(cell) if index else cell for cell in cells).rstrip()
            self.line(indent + (text if index else self.paint(text, "bold")))
            if index and notes and notes[index - 1]:
                below = f"{indent}{GAP}"
                self.paragraph(notes[index - 1], head=below, column=len(below))

    def pairs(self, values: Mapping[str, str], indent: str = "") -> None:
        """Write one name and value on each line; names without a value are left out."""
        shown = {name: value for name, value in values.items() if value}
        longest = max(map(len, shown), default=0)
        for name, value in shown.items():
            head = f"{indent}{self.paint(name.ljust(longest), 'dim')}{GAP}"
            column = len(indent) + longest + len(GAP)
            self.paragraph(printable(value), STATE_COLOURS.get(value, ""), head, column)


class LiveOutput(Output):
    """Collects lines and draws them over the previous picture, without flicker and without scrolling."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._lines: list[str] = []

    def line(self, text: str = "") -> None:
        """Add a line to the next picture."""
        self._lines.append(text)

    def draw(self) -> None:
        """Show the lines that fit on the terminal, and start the next picture."""
        shown = self._lines[: shutil.get_terminal_size().lines - 1]
        self._lines = []
        text = "".join(f"{line}{CLEAR_LINE}\n" for line in shown)
        print(f"{CURSOR_HOME}{text}{CLEAR_BELOW}", end="", file=self.stream, flush=True)
