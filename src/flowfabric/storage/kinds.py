"""The kinds of stored records, and how packed ones are read: the same on every store that packs them."""

from __future__ import annotations

from typing import Any, Final

from msgspec import DecodeError
from msgspec.msgpack import Decoder

from flowfabric.model.errors import Corruption, SchemaTooNew
from flowfabric.model.records import (
    VERSION,
    AccessToken,
    Attempt,
    Event,
    Execution,
    Frame,
    Kind,
    KindNames,
    KindNamespaces,
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

KINDS: Final[dict[str, type[Record | Execution | KeyRing]]] = {
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
    "kind": Kind,
    "kind_names": KindNames,
    "kind_namespaces": KindNamespaces,
}


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
