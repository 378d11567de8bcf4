"""Shorten, wrap and clean text for a terminal."""

from __future__ import annotations

import textwrap
from typing import Final

MIN_WIDTH: Final = 6
"""The narrowest that a column or a wrapped line may become."""
SHORT_ID_LENGTH: Final = 13
"""Twelve digits and a hyphen: enough that two ids in a list hardly ever look the same."""


def short_id(whole: str) -> str:
    """Return the beginning of the UUID in an id, which every command accepts in its place."""
    return whole.rpartition(":")[2][:SHORT_ID_LENGTH]


def printable(text: str) -> str:
    """Replace control characters, which a terminal would interpret, by spaces."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def printable_lines(text: str) -> str:
    """Replace the control characters of each line, and strip the text."""
    return "\n".join(printable(line).rstrip() for line in text.strip().splitlines())


def truncate(text: str, width: int) -> str:
    """Cut text to a width; an ellipsis marks the cut."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def wrap(text: str, width: int) -> list[str]:
    """Break text into lines between words; with a width of 0, only at its own line breaks."""
    lines: list[str] = []
    for line in text.split("\n"):
        if width <= 0 or len(line) <= width:
            lines.append(line)
        else:
            lines += textwrap.wrap(
                line, max(width, MIN_WIDTH), break_long_words=False, break_on_hyphens=False
            )
    return lines or [""]
