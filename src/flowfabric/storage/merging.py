"""Merge ordered pages of several queues or servers into one order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

Row = TypeVar("Row", bound=tuple[Any, ...])


def share(count: int, parts: int) -> int:
    """Return how many rows to request from each of `parts` parts to get `count` rows in all."""
    return count if parts == 1 else max(4, 4 * count // parts)


def merged(pages: Iterable[list[Row]], asked: int, *, descending: bool = False) -> tuple[list[Row], bool]:
    """Merge one ordered page of each part; return the rows, and True if there may be more.

    A full page may continue after its last row. Rows of other pages that sort after that row are left for the next
    call, because the unread rows may sort before them.
    """
    rows: list[Row] = []
    ends: list[Row] = []
    for page in pages:
        rows += page
        if len(page) >= asked:
            ends.append(page[-1])
    rows.sort(reverse=descending)
    if not ends:
        return rows, False
    edge = max(ends) if descending else min(ends)
    return [row for row in rows if (row >= edge if descending else row <= edge)], True
