"""One order out of several: pages of homes, or of queues."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

Row = TypeVar("Row", bound=tuple[Any, ...])


def share(count: int, parts: int) -> int:
    """How many rows to ask of each part when so many are wanted in all."""
    return count if parts == 1 else max(4, 4 * count // parts)


def merged(pages: Iterable[list[Row]], asked: int, *, descending: bool = False) -> tuple[list[Row], bool]:
    """Merge pages of several parts, each in order, into one; and say whether there may be more.

    A page that is as long as was asked may go on: what lies behind its end is not known yet, so nothing of the other
    pages that lies behind it is taken.
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
