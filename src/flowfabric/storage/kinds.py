"""The kinds of stored records, and how packed ones are read: the same on every store that packs them."""

from __future__ import annotations

from typing import Any, Final

from msgspec import DecodeError
from msgspec.msgpack import Decoder

from flowfabric.model.errors import Corruption, SchemaTooNew
from flowfabric.model.record_kinds import EXECUTION, OWNED, PAYLOAD, SHARED
from flowfabric.model.records import VERSION, Event, Execution, Frame, Record
from flowfabric.model.tokens import KeyRing

KINDS: Final[dict[str, type[Record | Execution | KeyRing]]] = {
    **{kind: kind.form for kind in (EXECUTION, *OWNED, *SHARED) if kind is not PAYLOAD},
    "history": Event,
    "frame": Frame,
}
"""The type of everything that is stored packed; a payload is stored as the bytes that were sent."""


def unpack(kind: str, decoder: Decoder[Any], data: bytes) -> Any:
    """Unpack a value that holds a record; say so when it cannot be read."""
    try:
        return decoder.decode(data)
    except DecodeError as error:
        raise Corruption(f"a stored {kind} cannot be read: {error}") from error


def check_version(kind: str, version: int) -> None:
    """Refuse what a newer version wrote."""
    if version > VERSION:
        raise SchemaTooNew(f"a stored {kind} has version {version}; this FlowFabric knows {VERSION}")
