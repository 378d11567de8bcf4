"""Bytes inside JSON: as the JSON value that they are, or as base64 in a second field."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import msgspec
from msgspec import Raw, UnsetType

from flowfabric.wire.errors import bad_request, unprocessable

JSON: Final = "json"
"""The encoding of payloads that are JSON."""


def embedded(data: bytes) -> Raw | None:
    """Return bytes that are one JSON value so that they can be embedded as they are; None for other bytes."""
    try:
        data.decode()  # msgspec does not check the text that it copies
        return msgspec.json.decode(data, type=Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def is_value(data: bytes) -> bool:
    """Return whether bytes are one JSON value without white space around it, which comes back as it went."""
    value = embedded(data)
    return value is not None and bytes(value) == data


def to_base64(data: bytes) -> str:
    """Encode bytes as base64."""
    return base64.b64encode(data).decode()


def from_base64(field: str, text: str) -> bytes:
    """Decode base64 strictly; refuse anything else as a malformed field."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise unprocessable(field, "must be base64") from error


# In answers.


def shown(name: str, data: bytes, encoding: str) -> dict[str, Any]:
    """Return stored bytes as the fields of an answer: `<name>` for JSON, otherwise `<name>_base64`."""
    value = embedded(data) if encoding == JSON else None
    if value is None:
        return {f"{name}_base64": to_base64(data)}
    if bytes(value) == data:
        return {name: value}
    # White space around a value is not part of it; base64 has the bytes as they are stored.
    return {name: value, f"{name}_base64": to_base64(data)}


def bytes_of(value: Raw | UnsetType, encoded: str | UnsetType) -> bytes:
    """Read the fields that `shown` wrote."""
    if isinstance(encoded, str):
        return base64.b64decode(encoded)
    return b"" if isinstance(value, UnsetType) else bytes(value)


# In bodies.


def sent(name: str, data: bytes, encoding: str, encoding_name: str = "encoding") -> dict[str, Any]:
    """Return bytes as the fields of a body: `<name>` for JSON, otherwise `<name>_base64` and their encoding."""
    if encoding == JSON and is_value(data):
        return {name: Raw(data)}
    return {f"{name}_base64": to_base64(data), encoding_name: encoding}


def taken(
    name: str,
    value: Raw | UnsetType,
    encoded: str | UnsetType | None,
    encoding: str | None,
    absent: bytes | None = b"null",
) -> tuple[bytes | None, str]:
    """Read the fields that `sent` wrote; return the bytes and their encoding. `encoding` counts for base64 only."""
    if isinstance(encoded, str):
        if not isinstance(value, UnsetType):
            raise bad_request(f"give {name} or {name}_base64, not both", field=name)
        return from_base64(f"{name}_base64", encoded), encoding or ""
    return absent if isinstance(value, UnsetType) else bytes(value), JSON
