"""Plain lines for people, JSON for programs: colours on a terminal only, tables that line up and fit."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final, TextIO

import msgspec

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
STATES: Final = {
    "active": "cyan",
    "suspended": "magenta",
    "delayed": "yellow",
    "completed": "green",
    "failed": "red",
    "cancelled": "red",
    "expired": "red",
}
"""How the words for states are coloured."""
NARROW: Final = 6
"""No column is cut shorter."""
IDS: Final = {"id", "waitpoint", "execution"}
"""Heads of columns that are not cut: half an id names nothing."""
GAP: Final = "  "
WORDS: Final = re.compile(r"\n|[^\S\n]+|\S+")
HOME: Final = "\x1b[H"
REST_OF_LINE: Final = "\x1b[K"
BELOW: Final = "\x1b[J"
CLEAR: Final = "\x1b[2J"


class Screen:
    """Writes lines to one place."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.out: Final = out or sys.stdout
        """Where it writes."""
        self.terminal = self.out.isatty()
        self._colours = self.terminal and not os.environ.get("NO_COLOR")
        self.open = False
        """Whether the last line has no end yet."""
        self._column = 0
        """Where the next piece of the open line begins."""

    @property
    def width(self) -> int:
        """How long a line may be; 0: as long as it is, because a program reads it."""
        if self.terminal:
            return shutil.get_terminal_size().columns
        columns = os.environ.get("COLUMNS", "")
        return int(columns) if columns.isascii() and columns.isdigit() else 0

    def paint(self, text: str, colour: str) -> str:
        """Colour some text, where colours are wanted."""
        return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m" if self._colours and colour else text

    def state(self, word: str) -> str:
        """Colour the word for a state."""
        return self.paint(word, STATES.get(word.strip(), ""))

    def line(self, text: str = "") -> None:
        """Write one line, at once."""
        self.close_line()
        print(
            f"{text}\n", end="", file=self.out, flush=True
        )  # in one piece: others write to the terminal, too

    def paragraph(self, text: str, colour: str = "", head: str = "", column: int = 0) -> None:
        """Write text behind a head that is `column` wide, broken between words where the line would be too long."""
        lines = wrapped(text, self.width - column if self.width else 0)
        for place, line in enumerate(lines):
            self.line(f"{' ' * column if place else head}{self.paint(line, colour)}".rstrip())

    def write(self, text: str, colour: str = "", head: str = "", column: int = 0) -> None:
        """Write a piece of a line, the first one behind a head that is `column` wide; a program gets lines only.

        On a terminal the text goes on in the next line, below its beginning, before a word that would not fit.
        """
        if not self.open:
            print(head, end="", file=self.out)
            self._column = column
        self.open = self.terminal
        shown = self._flow(text, column) if self.open else text
        print(self.paint(shown, colour), end="" if self.open else "\n", file=self.out, flush=True)

    def _flow(self, text: str, column: int) -> str:
        """Break text between words, where it goes on from the present column."""
        shown = ""
        for word in WORDS.findall(text):
            full = self._column + len(word) > self.width and self._column > column
            if word == "\n" or full:
                shown += f"\n{' ' * column}"
                self._column = column
            if word != "\n" and not (full and word.isspace()):
                shown += word
                self._column += len(word)
        return shown

    def close_line(self) -> None:
        """End the line that was begun, if there is one."""
        if self.open:
            self.open = False
            print(file=self.out)

    def json(self, value: Any) -> None:
        """Write one document; programs get it on one line."""
        text = msgspec.json.encode(value)
        self.line((msgspec.json.format(text) if self.terminal else text).decode())

    def table(
        self,
        head: Sequence[str],
        rows: Sequence[Sequence[str]],
        indent: str = "",
        *,
        spare: int = 0,
        notes: Sequence[str] = (),
    ) -> None:
        """Write rows under a head, each column as wide as it needs to be and as the terminal allows.

        Where there is no room for all, the `spare` columns at the end give way before the others do. Each row is
        followed by its note, if it has one.
        """
        clean = [[printable(cell) for cell in row] for row in (head, *rows)]
        wanted = [max(map(len, column)) for column in zip(*clean, strict=True)]
        used = [any(column) for column in zip(*clean[1:], strict=True)] or [True] * len(head)
        kept = max((place for place, name in enumerate(head, 1) if name in IDS), default=1)
        widths = fitted(
            [width * use for width, use in zip(wanted, used, strict=True)],
            self.width - len(indent),
            kept,
            spare,
        )
        for place, row in enumerate(clean):
            cells = [_cut(cell, width).ljust(width) for cell, width in zip(row, widths, strict=True) if width]
            text = GAP.join(self.state(cell) if place else cell for cell in cells).rstrip()
            self.line(indent + (text if place else self.paint(text, "bold")))
            if place and notes and notes[place - 1]:
                below = f"{indent}{GAP}"
                self.paragraph(notes[place - 1], head=below, column=len(below))

    def pairs(self, values: Mapping[str, str], indent: str = "") -> None:
        """Write names and values, one pair on each line; what has no value is left out."""
        shown = {name: value for name, value in values.items() if value}
        wide = max(map(len, shown), default=0)
        for name, value in shown.items():
            head = f"{indent}{self.paint(name.ljust(wide), 'dim')}{GAP}"
            self.paragraph(printable(value), STATES.get(value, ""), head, len(indent) + wide + len(GAP))


class Picture(Screen):
    """A screenful that is drawn over the one before, so that nothing flickers and nothing scrolls."""

    def __init__(self, out: TextIO | None = None) -> None:
        super().__init__(out)
        self._lines: list[str] = []

    def line(self, text: str = "") -> None:
        """Add a line; what is below the lowest one of the terminal is not shown."""
        self._lines.append(text)

    def draw(self) -> None:
        """Show it, and begin anew."""
        shown = self._lines[: shutil.get_terminal_size().lines - 1]
        self._lines = []
        print(
            HOME + "".join(f"{line}{REST_OF_LINE}\n" for line in shown) + BELOW,
            end="",
            file=self.out,
            flush=True,
        )


def fitted(widths: list[int], room: int, kept: int = 1, spare: int = 0) -> list[int]:
    """Take from the widest columns until everything fits; when that is not enough, leave out the last ones.

    The first columns say what a row is about and keep their width; the last ones that may be spared are cut first. What
    is 0 wide is not shown.
    """
    found = list(widths)
    for place in reversed(range(len(found) - spare, len(found))):
        over = _total(found) - room
        if room > 0 and over > 0:
            left = found[place] - over
            found[place] = left if left > NARROW else 0
    while room > 0 and _total(found) > room:
        widest = max(found[kept:], default=0)
        if widest > NARROW:
            found[found.index(widest, kept)] -= 1
            continue
        shown = [place for place, width in enumerate(found) if place and width]
        if not shown:
            break
        found[shown[-1]] = 0
    return found


def _total(widths: list[int]) -> int:
    shown = [width for width in widths if width]
    return sum(shown) + len(GAP) * (len(shown) - 1)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def wrapped(text: str, width: int) -> list[str]:
    """Break text into lines between words; with a width of 0 only where it has line breaks itself."""
    found: list[str] = []
    for line in text.split("\n"):
        if width <= 0 or len(line) <= width:
            found.append(line)
        else:
            found += textwrap.wrap(line, max(width, NARROW), break_long_words=False, break_on_hyphens=False)
    return found or [""]


def printable_lines(text: str) -> str:
    """Make text of several lines safe for a terminal, and leave out the space around it."""
    return "\n".join(printable(line).rstrip() for line in text.strip().splitlines())


def printable(text: str) -> str:
    """Replace what a terminal would take for commands by spaces."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
