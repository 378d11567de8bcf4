"""Values as bytes: JSON by default, `bytes` as they are, anything else by a codec of the user's.

JSON knows dataclasses, msgspec structs, TypedDicts, enumerations, dates, UUIDs and the like, and pydantic models by
what they can do (`model_validate_json`, `model_dump`), so that pydantic is never imported here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, Protocol, get_args, get_origin

import msgspec

BYTES: Final = "bytes"
"""The encoding of what is kept as it came."""
RAW: Final = (bytes, bytearray, memoryview)
"""What is written so."""

_PLACE: Final = re.compile(r"^(?P<text>.*?)(?: - at (?:key in )?`\$?(?P<path>[^`]*)`)?$", re.DOTALL)


class DecodeFault(Exception):
    """Bytes do not fit the type that was asked for; `path` says where, and is empty for the whole value."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        super().__init__(f"{path}: {text}" if path else text)


class EncodeFault(Exception):
    """A value cannot be written; the text says why, and what would do."""


class Codec(Protocol):
    """How values become bytes and back. Its name is stored beside the bytes, so that any reader knows what they are.

    A codec for whole programs is given to `FlowFabric(codec=…)`::

        class Pickled:
            name = "pickle"

            def encode(self, value): return pickle.dumps(value)
            def decode(self, data, type_): return pickle.loads(data)
    """

    @property
    def name(self) -> str:
        """What is stored as the encoding."""

    def encode(self, value: Any) -> bytes:
        """Write a value."""

    def decode(self, data: bytes, type_: Any) -> Any:
        """Read a value of a type; a codec that minds no types may return what it likes."""


def _dump(value: Any) -> Any:
    """Turn what msgspec does not know into what it knows."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(
        f"a {type(value).__qualname__} cannot be written as JSON: use a dataclass, a msgspec Struct, "
        "a TypedDict or a pydantic model, or give a codec"
    )


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_dump)


class JsonCodec:
    """JSON through msgspec, which checks types while it reads."""

    name = "json"

    def encode(self, value: Any) -> bytes:
        """Write a value as JSON."""
        try:
            return _ENCODER.encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise EncodeFault(str(error)) from error

    def decode(self, data: bytes, type_: Any) -> Any:
        """Read JSON as a value of the type."""
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
    """Write a value with a codec, whatever a codec of the user's may raise."""
    try:
        return codec.encode(value)
    except EncodeFault:
        raise
    except Exception as error:
        raise EncodeFault(f"{type(error).__name__}: {error}") from error


def decode_value(data: bytes, encoding: str, type_: Any = Any, codec: Codec = JSON) -> Any:
    """Return the value that bytes of an encoding mean. Without an encoding they are what the type suggests."""
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
    """Refuse a type that JSON cannot be read as, with a `TypeError` that says why."""
    _decoder_of(type_)


def fault_of(error: msgspec.ValidationError) -> DecodeFault:
    """Take msgspec's sentence apart: what is wrong, and where."""
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
    """Turn what msgspec has read into a type that it does not know."""
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
    """Say in one line what pydantic says in several."""
    errors = getattr(error, "errors", None)
    if not callable(errors) or not (found := errors()):
        return str(error)
    place = ".".join(str(part) for part in found[0]["loc"])
    return f"{place}: {found[0]['msg']}" if place else str(found[0]["msg"])
