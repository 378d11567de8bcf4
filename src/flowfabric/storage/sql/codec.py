"""Pack records into bytes, and unpack and check them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from flowfabric.model.records import Execution, Record
from flowfabric.model.tokens import KeyRing
from flowfabric.storage.kinds import KINDS, check_version, unpack

_encode: Final = msgspec.msgpack.Encoder().encode
_DECODERS: Final = {kind: msgspec.msgpack.Decoder(form) for kind, form in KINDS.items()}
_VERSIONED: Final = frozenset(kind for kind, form in KINDS.items() if form.__struct_fields__[0] == "version")


def encode(record: Record | Execution | KeyRing) -> bytearray:
    """Pack a record. A `bytearray` is what SQLite's driver takes as it is; for `bytes` it asks its adapters first."""
    return bytearray(_encode(record))


def decode(kind: str, data: bytes) -> Any:
    """Unpack a record; refuse what a newer version wrote, and say so when it cannot be read at all."""
    record = unpack(kind, _DECODERS[kind], data)
    if kind in _VERSIONED:
        check_version(kind, record.version)
    return record
