"""Commands that are too rare to be written in Lua: decided by the machine here, written if nothing has changed since.

They touch records that no index follows from: the keys that sign tokens, the tokens of people and programs, and kinds.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from flowfabric.model.command import Command
from flowfabric.model.machine.workspace import Workspace
from flowfabric.model.operations.access import CreateToken, DeleteToken
from flowfabric.model.operations.access_secret import RotateSecret, SeedSecret
from flowfabric.model.operations.kind import DeleteKind, PublishKind
from flowfabric.storage.valkey.keys import Layout

DECIDED_HERE: Final[frozenset[type[Command[Any]]]] = frozenset(
    {SeedSecret, RotateSecret, CreateToken, DeleteToken, PublishKind, DeleteKind}
)
_encode: Final = msgspec.msgpack.Encoder().encode


def swap(space: Workspace, layout: Layout) -> list[str | bytes]:
    """Return the arguments of `ff_swap`: for each changed record its place, what it was and becomes."""
    arguments: list[str | bytes] = []
    for (kind, key), old, new in space.changes():
        where, field = layout.place(kind, key)
        arguments += [where, field or "", _digest(_packed(old)), _packed(new)]
    return arguments


def _digest(packed: bytes) -> str:
    return hashlib.sha1(packed, usedforsecurity=False).hexdigest() if packed else ""


def _packed(record: msgspec.Struct | None) -> bytes:
    return b"" if record is None else _encode(record)
