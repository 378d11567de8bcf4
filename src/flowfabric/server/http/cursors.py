"""Cursors of lists: text that only servers over one store read, and that names the list it belongs to.

Most are positions in an index that holds nothing but what the caller may see. A place in a queue is that of any
execution, also of somebody else's: it is sealed, so that it shows nothing and cannot be made up.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from flowfabric.model.limits import MAX_INT
from flowfabric.model.operations.access_secret import ReadCursorKeys
from flowfabric.storage.base import Commands
from flowfabric.wire.errors import HttpError, bad_request

Place = tuple[int, str]
"""A score and an execution's id."""
_CURSOR: Final = re.compile(r"([a-z]+)([0-9]{1,16})")
_SEALED: Final = re.compile(r"[A-Za-z0-9_-]{24,240}")
_MARK: Final = 16


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


def queue_name(lane_id: str, namespace: str) -> str:
    """Say what a place in a queue is about: the lane, and whose token asks."""
    return f"queue {lane_id} {namespace}"


async def write_place(store: Commands, about: str, place: Place) -> str:
    """Seal a place in the queue that `about` names."""
    keys = (await store.read(ReadCursorKeys())).keys
    plain = msgspec.msgpack.encode(place)
    mark = _mark(keys[0], about, plain)
    sealed = mark + _hidden(keys[0], mark, plain)
    return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()


async def read_place(store: Commands, about: str, text: str) -> Place:
    """Open a place that a server over this store has sealed for the same queue."""
    try:
        sealed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)) if _SEALED.fullmatch(text) else b""
    except binascii.Error:
        sealed = b""
    keys = (await store.read(ReadCursorKeys())).keys
    plain = _opened(keys, about, sealed)
    if plain is None:
        raise bad_cursor("it is not one of this list")
    place: Place = msgspec.msgpack.decode(plain, type=Place)
    return place


def _opened(keys: Sequence[bytes], about: str, sealed: bytes) -> bytes | None:
    mark, hidden = sealed[:_MARK], sealed[_MARK:]
    for key in keys:
        plain = _hidden(key, mark, hidden)
        if hmac.compare_digest(_mark(key, about, plain), mark):
            return plain
    return None


def _mark(key: bytes, about: str, plain: bytes) -> bytes:
    """Say whose work it is; as it depends on everything, it is what the text is hidden with, too."""
    message = b"%d:%b%b" % (len(about.encode()), about.encode(), plain)
    return hmac.new(key, b"mark" + message, hashlib.sha256).digest()[:_MARK]


def _hidden(key: bytes, mark: bytes, text: bytes) -> bytes:
    """Hide a text, or show it again."""
    stream = hashlib.shake_256(key + b"hide" + mark).digest(len(text))
    return bytes(a ^ b for a, b in zip(text, stream, strict=True))


def bad_cursor(why: str) -> HttpError:
    """Refuse a cursor."""
    return bad_request(f"invalid cursor: {why}", field="cursor")
