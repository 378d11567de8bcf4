"""Encoding values as bytes: JSON by default, `bytes` unchanged, anything else by a codec of the user.

JSON supports dataclasses, msgspec structs, TypedDicts, enumerations, dates, UUIDs and the like. Pydantic models are
recognised by their methods (`model_validate_json`, `model_dump`), so that pydantic is never imported here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, Protocol, get_args, get_origin

import msgspec

BYTES: Final = "bytes"
"""The encoding of values that are stored unchanged."""
RAW: Final = (bytes, bytearray, memoryview)
"""The types with that encoding."""

_PLACE: Final = re.compile(r"^(?P<text>.*?)(?: - at (?:key in )?`\$?(?P<path>[^`]*)`)?$", re.DOTALL)


class DecodeFault(Exception):
    """Bytes do not decode to the requested type. `path` is where; empty for the whole value."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        super().__init__(f"{path}: {text}" if path else text)


class EncodeFault(Exception):
    """A value cannot be encoded; the message says why, and which types can."""


class Codec(Protocol):
    """Encodes values as bytes and decodes them. Its name is stored with the bytes, as their encoding.

    Pass a codec for a whole program to `FlowFabric(codec=…)`::

        class Pickled:
            name = "pickle"

            def encode(self, value): return pickle.dumps(value)
            def decode(self, data, type_): return pickle.loads(data)
    """

    @property
    def name(self) -> str:
        """The name that is stored as the encoding."""

    def encode(self, value: Any) -> bytes:
        """Encode a value."""

    def decode(self, data: bytes, type_: Any) -> Any:
        """Decode a value of a type; a codec may ignore the type."""


def _dump(value: Any) -> Any:
    """Convert a value that msgspec does not support to one that it does."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(
        f"a {type(value).__qualname__} cannot be written as JSON: use a dataclass, a msgspec Struct, "
        "a TypedDict or a pydantic model, or give a codec"
    )


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_dump)


class JsonCodec:
    """JSON through msgspec, which checks types while it decodes."""

    name = "json"

    def encode(self, value: Any) -> bytes:
        """Encode a value as JSON."""
        try:
            return _ENCODER.encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise EncodeFault(str(error)) from error

    def decode(self, data: bytes, type_: Any) -> Any:
        """Decode JSON as a value of the type."""
        try:
            return _decoder_of(type_).decode(data)
        except msgspec.ValidationError as error:
            raise fault_of(error) from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DecodeFault("", f"it is not JSON: {error}") from error


JSON: Final = JsonCodec()


def encode_value(value: Any, codec: Codec = JSON) -> tuple[bytes, str]:
    """Return the bytes of a value and the name of their encoding."""
    if isinstance(value, RAW):
        return bytes(value), BYTES
    return encode_with(codec, value), codec.name


def encode_with(codec: Codec, value: Any) -> bytes:
    """Encode a value with a codec; raise `EncodeFault` for any error of a user's codec."""
    try:
        return codec.encode(value)
    except EncodeFault:
        raise
    except Exception as error:
        raise EncodeFault(f"{type(error).__name__}: {error}") from error


def decode_value(data: bytes, encoding: str, type_: Any = Any, codec: Codec = JSON) -> Any:
    """Decode bytes of an encoding. Without an encoding, the type decides between bytes and the codec."""
    if encoding == BYTES or (not encoding and type_ is bytes):
        return data
    if encoding and encoding != codec.name:
        known = f"`{codec.name}` and `{BYTES}`"
        raise DecodeFault("", f"it is written as `{encoding}`, and only {known} can be read: give that codec")
    try:
        return codec.decode(data, type_)
    except DecodeFault:
        raise
    except msgspec.ValidationError as error:
        raise fault_of(error) from error
    except Exception as error:
        raise DecodeFault("", f"{type(error).__name__}: {error}") from error


def check_type(type_: Any) -> None:
    """Raise `TypeError` if JSON cannot be decoded as a type."""
    _decoder_of(type_)


def fault_of(error: msgspec.ValidationError) -> DecodeFault:
    """Split the message of msgspec into the problem and its path."""
    found = _PLACE.match(str(error))
    assert found is not None, "the pattern takes any text"
    return DecodeFault((found["path"] or "").removeprefix("."), found["text"])


def _decoder_of(type_: Any) -> msgspec.json.Decoder[Any]:
    try:
        return _kept_decoder(type_)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        return msgspec.json.Decoder(type_, dec_hook=_load)  # `Annotated` may carry anything


@lru_cache(maxsize=1_024)
def _kept_decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_, dec_hook=_load)


def _load(type_: Any, value: Any) -> Any:
    """Convert a decoded value to a type that msgspec does not support."""
    if type_ is object:
        return value
    if (get_origin(type_) or type_) is Iterable:
        (inner,) = get_args(type_) or (Any,)
        return msgspec.convert(value, list[inner], dec_hook=_load)  # type: ignore[valid-type]
    read = getattr(type_, "model_validate_json", None)
    if read is None:
        name = getattr(type_, "__qualname__", str(type_))
        raise ValueError(
            f"a {name} cannot be read from JSON: use a dataclass, a msgspec Struct, a TypedDict "
            "or a pydantic model, or give a codec"
        )
    try:
        return read(msgspec.json.encode(value))
    except ValueError as error:
        raise ValueError(_first_of(error)) from error


def _first_of(error: ValueError) -> str:
    """Return the first error of pydantic in one line."""
    errors = getattr(error, "errors", None)
    if not callable(errors) or not (found := errors()):
        return str(error)
    place = ".".join(str(part) for part in found[0]["loc"])
    return f"{place}: {found[0]['msg']}" if place else str(found[0]["msg"])
