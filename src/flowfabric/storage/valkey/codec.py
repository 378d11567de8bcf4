"""Records as they lie in the server: the arrays of `model/records.py`, with bytes beside them, never inside.

A record with bytes in it is `[record with "" in their place, bytes]`, an execution lies in parts (executions.py), every
other one is just its array.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from flowfabric.model.records import VERSION, Event
from flowfabric.storage.kinds import KINDS, check_version, unpack

FORMS: Final = {kind: form for kind, form in KINDS.items() if kind != "history"}
"""Lines of history are no records of their own here: they stand in the feed."""
BYTES: Final = {
    "result": "data",
    "signal": "payload",
    "frame": "payload",
    "summary": "document",
    "step": "result",
    "memo": "value",
}
"""The one field of bytes in the kinds that have any."""


class Told(msgspec.Struct, frozen=True):
    """A line of history as it stands in the feed."""

    execution_id: str
    namespace: str
    lane_id: str
    execution_kind: str
    flow_id: str
    event: Event


def _head(kind: str) -> type[msgspec.Struct]:
    """Return the form of a record with text in the place of its bytes."""
    form = FORMS[kind]
    types = {field.name: field.type for field in msgspec.structs.fields(form)} | {BYTES[kind]: str}
    return msgspec.defstruct(f"{form.__name__}Head", list(types.items()), array_like=True)


_HEADS: Final = {kind: _head(kind) for kind in BYTES}
_PLACES: Final = {kind: FORMS[kind].__struct_fields__.index(field) for kind, field in BYTES.items()}
_DECODERS: Final[dict[str, msgspec.msgpack.Decoder[Any]]] = {
    kind: msgspec.msgpack.Decoder(form) for kind, form in FORMS.items() if kind not in BYTES
} | {kind: msgspec.msgpack.Decoder(tuple[head, bytes]) for kind, head in _HEADS.items()}  # type: ignore[valid-type]
_LINE: Final = msgspec.msgpack.Decoder(list[str | int])
_LEASE: Final = ("lease_id", "attempt_id", "worker_id", "worker_instance_id")


def decode(kind: str, data: bytes) -> Any:
    """Unpack a record; refuse what a newer version wrote, and say so when it cannot be read at all."""
    record = unpack(kind, _DECODERS[kind], data)
    if kind in _PLACES:
        head, raw = record
        values = list(msgspec.structs.astuple(head))
        values[_PLACES[kind]] = raw
        record = FORMS[kind](*values)
    check_version(kind, getattr(record, "version", VERSION))
    return record


def told(data: bytes) -> Told:
    """Unpack a line of the feed: one flat array; a number among the details stands for the names of a lease's parts."""
    line: list[Any] = unpack("line of history", _LINE, data)
    details = line[14:]
    pairs: list[tuple[str, str]] = []
    if details and isinstance(details[0], int):
        pairs = list(zip(_LEASE, details[1 : 1 + details[0]], strict=True))
        details = details[1 + details[0] :]
    pairs += zip(details[::2], details[1::2], strict=True)
    event: tuple[Any, ...] = (*line[5:14], tuple(pairs))
    return Told(line[0], line[1], line[2], line[3], line[4], Event(*event))
