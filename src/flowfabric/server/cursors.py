"""Cursors of lists: text that only this server reads, and that names the list it belongs to."""

from __future__ import annotations

import re
from typing import Final

from flowfabric.model.limits import MAX_INT
from flowfabric.server.errors import HttpError, bad_request

_CURSOR: Final = re.compile(r"([a-z]+)([0-9]{1,16})")
_QUEUE_CURSOR: Final = re.compile(r"queue(-?[0-9]{1,16})\.(.{1,64})")


def write_cursor(kind: str, position: int) -> str | None:
    """Write a position; 0 is none."""
    return f"{kind}{position}" if position else None


def read_cursor(kind: str, text: str) -> int:
    """Read a position of this kind of list; empty text is its beginning."""
    if not text:
        return 0
    found = _CURSOR.fullmatch(text)
    if found is None or found[1] != kind or int(found[2]) > MAX_INT:
        raise bad_cursor("it is not one of this list")
    return int(found[2])


def write_queue_cursor(place: tuple[int, str] | None) -> str | None:
    """Write a place in a queue: score and id."""
    return None if place is None else f"queue{place[0]}.{place[1]}"


def read_queue_cursor(text: str) -> tuple[int, str] | None:
    """Read a place in a queue; empty text is none."""
    if not text:
        return None
    found = _QUEUE_CURSOR.fullmatch(text)
    if found is None:
        raise bad_cursor("it is not one of this list")
    return int(found[1]), found[2]


def bad_cursor(why: str) -> HttpError:
    """Refuse a cursor."""
    return bad_request(f"invalid cursor: {why}", field="cursor")
