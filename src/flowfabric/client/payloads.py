"""Bytes inside JSON, exactly: as the JSON value that they are, or as base64."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any, Final

import msgspec

JSON: Final = "json"
NOTHING: Final = msgspec.Raw()
"""No value at all."""


def put(name: str, data: bytes, encoding: str, encoding_name: str = "encoding") -> dict[str, Any]:
    """Write bytes under `<name>` where they are JSON, else under `<name>_base64` with their encoding."""
    if encoding == JSON and is_value(data):
        return {name: msgspec.Raw(data)}
    return {f"{name}_base64": b64encode(data).decode(), encoding_name: encoding}


def is_value(data: bytes) -> bool:
    """Whether bytes are one JSON value and nothing around it, so that they come back as they went."""
    try:
        data.decode()  # what is only copied is not checked for being text
        return bytes(msgspec.json.decode(data, type=msgspec.Raw)) == data
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def take(raw: msgspec.Raw, encoded: str | None) -> bytes:
    """Read bytes that came as a JSON value or as base64."""
    if encoded is not None:
        return b64decode(encoded)
    return bytes(raw)
