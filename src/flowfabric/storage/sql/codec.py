"""Records as bytes: packed on the way in, checked on the way out."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from flowfabric.model.errors import Corruption, SchemaTooNew
from flowfabric.model.records import (
    VERSION,
    AccessToken,
    Attempt,
    Event,
    Execution,
    Frame,
    Lane,
    Memo,
    Record,
    Result,
    Signal,
    Step,
    Stream,
    Summary,
    Suspension,
    Waitpoint,
    Worker,
)
from flowfabric.model.tokens import KeyRing

TYPES: Final[dict[str, type[Record | Execution | KeyRing]]] = {
    "execution": Execution,
    "result": Result,
    "attempt": Attempt,
    "history": Event,
    "suspension": Suspension,
    "waitpoint": Waitpoint,
    "signal": Signal,
    "stream": Stream,
    "frame": Frame,
    "summary": Summary,
    "step": Step,
    "memo": Memo,
    "lane": Lane,
    "worker": Worker,
    "token": AccessToken,
    "keyring": KeyRing,
}

_encode: Final = msgspec.msgpack.Encoder().encode
_DECODERS: Final = {kind: msgspec.msgpack.Decoder(form) for kind, form in TYPES.items()}
_VERSIONED: Final = frozenset(kind for kind, form in TYPES.items() if form.__struct_fields__[0] == "version")


def encode(record: Record | Execution | KeyRing) -> bytearray:
    """Pack a record. A `bytearray` is what SQLite's driver takes as it is; for `bytes` it asks its adapters first."""
    return bytearray(_encode(record))


def decode(kind: str, data: bytes) -> Any:
    """Unpack a record; refuse what a newer version wrote, and say so when it cannot be read at all."""
    try:
        record = _DECODERS[kind].decode(data)
    except msgspec.DecodeError as error:
        raise Corruption(f"a stored {kind} cannot be read: {error}") from error
    version = getattr(record, "version", VERSION) if kind in _VERSIONED else VERSION
    if version > VERSION:
        raise SchemaTooNew(f"a stored {kind} has version {version}; this FlowFabric knows {VERSION}")
    return record
