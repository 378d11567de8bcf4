"""Fit the columns of a table to the width of the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flowfabric.cli.support.text import MIN_WIDTH, printable, truncate

ID_COLUMNS: Final = {"id", "waitpoint", "execution"}
"""Columns that are never truncated, because a truncated id identifies nothing."""
GAP: Final = "  "


def format_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], room: int = 0, optional: int = 0
) -> list[list[str]]:
    """Return the head and the rows as padded cells that fit the room; 0 means unlimited.

    Columns without any value are left out. The last `optional` columns shrink before the others do.
    """
    clean = [[printable(cell) for cell in row] for row in (head, *rows)]
    natural = [max(map(len, column)) for column in zip(*clean, strict=True)]
    used = [any(column) for column in zip(*clean[1:], strict=True)] or [True] * len(head)
    fixed = max((index for index, name in enumerate(head, 1) if name in ID_COLUMNS), default=1)
    widths = fit_columns(
        [width * use for width, use in zip(natural, used, strict=True)], room, fixed, optional
    )
    return [
        [truncate(cell, width).ljust(width) for cell, width in zip(row, widths, strict=True) if width]
        for row in clean
    ]


def fit_columns(widths: list[int], room: int, fixed: int = 1, optional: int = 0) -> list[int]:
    """Shrink the widest columns until the table fits; if that is not enough, drop the last ones.

    The first `fixed` columns identify a row and keep their width; the last `optional` ones shrink first. A width of
    0 hides the column.
    """
    fitted = list(widths)
    for index in reversed(range(len(fitted) - optional, len(fitted))):
        excess = _total(fitted) - room
        if room > 0 and excess > 0:
            left = fitted[index] - excess
            fitted[index] = left if left > MIN_WIDTH else 0
    while room > 0 and _total(fitted) > room:
        widest = max(fitted[fixed:], default=0)
        if widest > MIN_WIDTH:
            fitted[fitted.index(widest, fixed)] -= 1
            continue
        shown = [index for index, width in enumerate(fitted) if index and width]
        if not shown:
            break
        fitted[shown[-1]] = 0
    return fitted


def _total(widths: list[int]) -> int:
    shown = [width for width in widths if width]
    return sum(shown) + len(GAP) * (len(shown) - 1)
