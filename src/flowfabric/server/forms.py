"""Types that request bodies share: ranges, ids, bytes. What does not fit is refused while decoding."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, UnsetType

from flowfabric.model.command import Fence
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.ids import Partitions, check_execution_id, check_uuid
from flowfabric.model.limits import MAX_FAIRNESS_WEIGHT, MAX_INT
from flowfabric.server.errors import bad_request, unprocessable
from flowfabric.server.examples import EXECUTION_ID

I32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Priority = Annotated[I32, Meta(description="Kept between 0 and 9000: what is below or above is moved there.")]
U16 = Annotated[int, Meta(ge=0, le=2**16 - 1)]
U32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Integer = Annotated[int, Meta(ge=-MAX_INT, le=MAX_INT)]
"""Whatever every store keeps exactly; the engine says which range a field really has."""
U64 = Annotated[int, Meta(ge=0, le=MAX_INT)]
Ms = Annotated[int, Meta(ge=0, le=MAX_INT, description="milliseconds since 1970")]
Clock = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1, description="the caller's clock, in ms; not used")]
Weight = Annotated[int, Meta(ge=1, le=MAX_FAIRNESS_WEIGHT)]
END: Final = r"$(?!\n)"
"""The end of the text; a dollar alone would let a line break through."""
_HEX: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_INDEX: Final = r"0|[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"
_ID: Final = rf"^\{{fp:({_INDEX})\}}:{_HEX}{END}"
_UUID: Final = rf"^{_HEX}{END}"
ExecutionIdText = Annotated[str, Meta(pattern=_ID)]
Uuid = Annotated[str, Meta(pattern=_UUID)]
LaneText = Annotated[str, Meta(min_length=1, max_length=64, pattern=rf"^[\x20-\x7e]+{END}")]
Byte = Annotated[int, Meta(ge=0, le=255)]
SHOWN: Final = 256
"""So much of what somebody sent is shown to them again."""


class FenceForm(Struct, frozen=True):
    """The proof of holding a lease, as it is sent; whether it is whole is judged with the execution."""

    lease_id: Uuid | None = None
    lease_epoch: U64 | None = None
    attempt_id: Uuid | None = None

    def fence(self) -> Fence:
        """Return what the engine takes."""
        return fence_of(self.lease_id, self.lease_epoch, self.attempt_id)


def fence_of(lease_id: str | None, lease_epoch: int | None, attempt_id: str | None) -> Fence:
    """Put a fence together from the parts that were sent."""
    return Fence(lease_id or "", -1 if lease_epoch is None else lease_epoch, attempt_id or "")


class Base64(Struct, frozen=True):
    """Bytes as base64, where an array of integers would be long."""

    base64: str


ByteList = list[Byte] | Base64
"""Bytes of the older routes: an array of integers, or `{"base64": …}`."""


def to_bytes(field: str, value: list[int] | Base64 | None) -> bytes:
    """Read bytes of the older routes."""
    if value is None:
        return b""
    return from_base64(field, value.base64) if isinstance(value, Base64) else bytes(value)


def from_base64(field: str, text: str) -> bytes:
    """Read base64, strictly."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise unprocessable(field, "must be base64") from error


def json_or_base64(
    name: str, value: msgspec.Raw | UnsetType, encoded: str | UnsetType | None, absent: bytes | None
) -> tuple[bytes | None, str]:
    """Read a value that is given as JSON or as raw bytes in base64; returns the bytes and their encoding."""
    if isinstance(encoded, str):
        if not isinstance(value, UnsetType):
            raise bad_request(f"give {name} or {name}_base64, not both", field=name)
        return from_base64(f"{name}_base64", encoded), ""
    if isinstance(value, UnsetType):
        return absent, "json"
    return bytes(value), "json"


def optional_json(value: msgspec.Raw | UnsetType) -> bytes:
    """Read a JSON value that may be absent or null, as text."""
    text = b"" if isinstance(value, UnsetType) else bytes(value)
    return b"" if text == b"null" else text


def later(now: int, name: str, after_ms: int | None, at: int | None) -> int | None:
    """Read a time that is given as a distance or as itself, not both."""
    if after_ms is not None and at is not None:
        raise bad_request(f"give {name}_ms or the absolute time, not both", field=f"{name}_ms")
    if after_ms is not None:
        return min(now + after_ms, MAX_INT)
    return at


def same_id(field: str, in_path: str, in_body: str) -> None:
    """Refuse a body that names another thing than the path."""
    if in_path != in_body:
        raise bad_request(f"path {field} does not match body {field}", field=field)


def path_uuid(field: str, text: str) -> str:
    """Read a UUID of the path; a malformed one is 400."""
    try:
        return check_uuid(field, text)
    except FlowFabricError as error:
        raise bad_request(f"{field}: {error.text}", field=field) from error


def path_execution(text: str, partitions: Partitions) -> str:
    """Read an execution id of the path; a malformed one is 400."""
    try:
        check_execution_id(text, partitions)
    except FlowFabricError as error:
        raise bad_request(
            f"invalid execution_id: {_what_is_wrong(text, error)}", field="execution_id"
        ) from error
    return text


def _what_is_wrong(text: str, error: FlowFabricError) -> str:
    """Say what an execution id lacks, and show the part in question."""
    index, _, uuid_text = text.removeprefix("{fp:").partition("}:")
    problem, part = {
        "MissingTag": ("is missing the `{fp:N}:` hash-tag prefix", text),
        "InvalidPartitionIndex": ("partition index is not a valid u16", index),
        "InvalidUuid": ("UUID suffix is not a valid UUID", uuid_text),
    }.get(error.details[0], (error.text, ""))
    remedy = f"; a whole id looks like {EXECUTION_ID}" if error.details[0] == "MissingTag" else ""
    return (f"execution_id {problem}: {part[:SHOWN]}" if part else f"execution_id {problem}") + remedy


def text_or_base64(data: bytes) -> dict[str, Any]:
    """Show bytes as `payload` where they are text, else as `payload_base64`."""
    try:
        return {"payload": data.decode()}
    except UnicodeDecodeError:
        return {"payload_base64": base64.b64encode(data).decode()}
