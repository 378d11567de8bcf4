"""Types that bodies share: ranges, ids, the fence. A value that does not fit is refused while decoding."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct, UnsetType

from flowfabric.model.command import Fence
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.ids import Partitions, check_execution_id, check_uuid
from flowfabric.model.limits import MAX_FAIRNESS_WEIGHT, MAX_INT
from flowfabric.wire.errors import bad_request

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
SHOWN: Final = 256
"""So much of what somebody sent is shown to them again."""


EXECUTION_ID: Final = "{fp:7}:7c9e6679-7425-40de-944b-e07fc1f90ae7"
"""An example of an execution id."""
HOLDER_SOURCES: Final = ("worker", "lease_holder")
"""The values of `source` that a lease holder uses; any other requires the right to operate."""


class Body(Struct, frozen=True, omit_defaults=True):
    """Base of request bodies and queries: the server decodes them, the client encodes them."""


class FenceBody(Body, frozen=True):
    """The proof of holding a lease. The engine decides whether it is complete."""

    lease_id: Uuid | None = None
    lease_epoch: U64 | None = None
    attempt_id: Uuid | None = None

    def fence(self) -> Fence:
        """Return the fence that the engine takes."""
        return fence_of(self.lease_id, self.lease_epoch, self.attempt_id)

    @classmethod
    def of(cls, fence: Fence) -> FenceBody | None:
        """Return the parts of a fence that are given; None if there are none."""
        if not fence.given:
            return None
        epoch = fence.lease_epoch if fence.lease_epoch >= 0 else None
        return cls(fence.lease_id or None, epoch, fence.attempt_id or None)


def fence_of(lease_id: str | None, lease_epoch: int | None, attempt_id: str | None) -> Fence:
    """Build a fence from the parts that were sent."""
    return Fence(lease_id or "", -1 if lease_epoch is None else lease_epoch, attempt_id or "")


class HolderBody(Body, frozen=True, kw_only=True):
    """The proof that every operation of a lease holder carries."""

    fence: FenceBody | None = None
    source: str = "worker"
    """On whose behalf; anybody but the holder must be an operator."""


def optional_json(value: msgspec.Raw | UnsetType) -> bytes:
    """Return the text of a JSON value that may be absent or null."""
    text = b"" if isinstance(value, UnsetType) else bytes(value)
    return b"" if text == b"null" else text


def later(now: int, name: str, after_ms: int | None, at: int | None) -> int | None:
    """Return a time that is given as a delay from now or as itself; refuse both at once."""
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
