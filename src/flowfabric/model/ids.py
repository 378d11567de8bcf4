"""Ids: how they are spelt, and which partition each belongs to.

Ids are plain text in records and messages. An execution id carries its partition, `{fp:24}:<uuid>`, so
finding its home never needs configuration. Every id has exactly one spelling: two spellings of one id
would name two executions.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from flowfabric.model.errors import invalid, refuse
from flowfabric.model.limits import BUDGET_PARTITIONS, FLOW_PARTITIONS, MAX_INT, QUOTA_PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowfabric.model.errors import FlowFabricError

FLOW: Final = "fp"
BUDGET: Final = "b"
QUOTA: Final = "q"
FAMILIES: Final = (FLOW, BUDGET, QUOTA)
MAX_PARTITIONS: Final = 65_535

SHORTEST_PREFIX: Final = 4
"""So much of a UUID names an execution at least."""

_TAG: Final = "{fp:"
_DIGITS: Final = frozenset("0123456789abcdef")
_HYPHENS: Final = (8, 13, 18, 23)
_UUID_LENGTH: Final = 36
_UUID: Final = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_EXECUTION_ID: Final = re.compile(r"\{fp:(0|[1-9][0-9]{0,4})\}:(" + _UUID.pattern + ")")
_INDEX: Final = re.compile("0|[1-9][0-9]{0,4}")
# Twenty digits hold every 64-bit number; the bound keeps hostile text away from `int`.
_ENTRY: Final = re.compile("([0-9]{1,20})(?:-([0-9]{1,20}))?")

_FNV_OFFSET: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3
_U64: Final = 2**64 - 1

CursorKind: TypeAlias = Literal["start", "end", "at"]


class Partitions(msgspec.Struct, frozen=True):
    """How many partitions each family has; fixed for the life of a deployment."""

    flow: int = FLOW_PARTITIONS
    budget: int = BUDGET_PARTITIONS
    quota: int = QUOTA_PARTITIONS

    def check(self) -> None:
        """Refuse counts that cannot be used."""
        for family in self.__struct_fields__:
            count = getattr(self, family)
            if type(count) is not int or not 1 <= count <= MAX_PARTITIONS:
                raise invalid(f"num_{family}_partitions", f"must be an integer from 1 to {MAX_PARTITIONS}")


def crc16(data: bytes) -> int:
    """CRC-16/XMODEM, the hash that a Valkey cluster uses for slots."""
    return binascii.crc_hqx(data, 0)


def partition_of(data: bytes, count: int, setting: str = "num_flow_partitions") -> int:
    """Return the partition of some bytes among `count`; `setting` names the count in a refusal."""
    if count < 1:
        raise invalid(setting, f"must be an integer from 1 to {MAX_PARTITIONS}")
    return crc16(data) % count


def partition_of_uuid(uuid_text: str, count: int, setting: str = "num_flow_partitions") -> int:
    """Return the partition of a valid UUID: its sixteen bytes decide, not its text."""
    return partition_of(bytes.fromhex(uuid_text.replace("-", "")), count, setting)


def check_uuid(field: str, text: str) -> str:
    """Return a UUID in its only accepted spelling: lower case with hyphens, any version."""
    if _UUID.fullmatch(str(text)) is None:
        raise _malformed(field, "InvalidUuid", "must be a UUID in lower case with hyphens")
    return text


def is_uuid(text: str) -> bool:
    """Tell whether some text is a UUID in its only accepted spelling."""
    return _UUID.fullmatch(text) is not None


def check_uuid_prefix(field: str, text: str) -> str:
    """Return the beginning of a UUID, at least four characters of it, in lower case and with its hyphens."""
    fits = all(
        letter == "-" if place in _HYPHENS else letter in _DIGITS for place, letter in enumerate(str(text))
    )
    if not fits or not SHORTEST_PREFIX <= len(str(text)) <= _UUID_LENGTH:
        problem = f"must be the beginning of a UUID, {SHORTEST_PREFIX} or more of its digits, in lower case"
        raise _malformed(field, "InvalidUuidPrefix", problem)
    return text


def execution_id(partition: int, uuid_text: str) -> str:
    """Put an execution id together from valid parts."""
    return f"{{fp:{partition}}}:{uuid_text}"


def parse_execution_id(text: str) -> tuple[int, str]:
    """Take an execution id apart into partition and UUID, refusing every other spelling."""
    field = "execution_id"
    sound = _EXECUTION_ID.fullmatch(str(text))
    if sound is not None and int(sound[1]) <= MAX_PARTITIONS:
        return int(sound[1]), sound[2]
    if not isinstance(text, str):
        raise _malformed(field, "MissingTag", "must be text that looks like {fp:24}:<uuid>")
    body, separator, uuid_text = text.removeprefix(_TAG).partition("}:")
    if not text.startswith(_TAG) or not separator:
        raise _malformed(field, "MissingTag", "must look like {fp:24}:<uuid>")
    index = _parse_index(body)
    if index is None:
        raise _malformed(
            field, "InvalidPartitionIndex", "the partition must be a decimal number from 0 to 65535"
        )
    if _UUID.fullmatch(uuid_text) is None:
        raise _malformed(field, "InvalidUuid", "must end in a UUID in lower case with hyphens")
    return index, uuid_text


def check_execution_id(text: str, partitions: Partitions) -> int:
    """Return the partition of an execution id that must fit the configured count."""
    index, _ = parse_execution_id(text)
    if index >= partitions.flow:
        raise refuse(
            "invalid_input",
            "PartitionOutOfRange",
            str(index),
            str(partitions.flow),
            text=f"names partition {index}, but num_flow_partitions is {partitions.flow}",
            field="execution_id",
        )
    return index


def partition_in(execution_id: str) -> int:
    """Read the partition out of an id that was checked before."""
    return int(execution_id[4 : execution_id.index("}")])


def partition_for_lane(lane: str, partitions: Partitions) -> int:
    """Place solo work by its lane."""
    return partition_of(lane.encode(), partitions.flow)


def for_flow(flow_id: str, partitions: Partitions, uuid_text: str) -> str:
    """Mint the id of a future member of a flow: it lives where the flow lives."""
    check_uuid("flow_id", flow_id)
    return execution_id(partition_of_uuid(flow_id, partitions.flow), check_uuid("uuid", uuid_text))


def solo(
    lane: str,
    partitions: Partitions,
    uuid_text: str,
    partitioner: Callable[[str, Partitions], int] = partition_for_lane,
) -> str:
    """Mint the id of an execution without a flow; `partitioner` places it by its lane."""
    index = partitioner(lane, partitions)
    if not 0 <= index < partitions.flow:
        raise invalid("partitioner", f"must answer with a number from 0 to {partitions.flow - 1}")
    return execution_id(index, check_uuid("uuid", uuid_text))


def spread(uuid_text: str, partitions: Partitions) -> str:
    """Mint an id whose UUID decides the partition, so that work spreads over all of them."""
    check_uuid("uuid", uuid_text)
    return execution_id(partition_of_uuid(uuid_text, partitions.flow), uuid_text)


def for_key(namespace: str, key: str, uuid_text: str, partitions: Partitions) -> str:
    """Mint an id placed by its idempotency key, so that a repeat meets the first one in one step."""
    index = partition_of(f"{namespace}\0{key}".encode(), partitions.flow)
    return execution_id(index, check_uuid("uuid", uuid_text))


LEASE: Final = "lease"
ATTEMPT: Final = "attempt"
NEXT: Final = "next"
"""The base of the next task of the same claim."""


def mint(base_uuid: str, purpose: str) -> str:
    """Derive an id of one operation from its random base.

    The ids of a claim are all derived from one base. Readers see ids of attempts that have ended, so none of them may
    lead to the base or to another id. SHA-1 is what a function on Valkey has at hand, and one-way is all that is asked.
    """
    digest = hashlib.sha1(f"{base_uuid}:{purpose}".encode(), usedforsecurity=False).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-4{digest[12:15]}-8{digest[15:18]}-{digest[18:30]}"


def partition_key(family_prefix: str, index: int) -> str:
    """Spell the handle of a partition, as in `{fp:24}`."""
    return f"{{{family_prefix}:{index}}}"


def parse_partition_key(text: str, field: str = "partition_key") -> tuple[str, int]:
    """Take a partition handle apart into family prefix and index."""
    if len(text) < 2 or text[0] != "{" or text[-1] != "}":
        raise _malformed(field, "MissingBraces", "must be wrapped in braces, like {fp:24}")
    body = text[1:-1]
    if body.count(":") != 1:
        raise _malformed(field, "MalformedBody", "must hold one prefix and one index, like {fp:24}")
    prefix, _, digits = body.partition(":")
    if prefix not in FAMILIES:
        raise _malformed(field, "UnknownFamilyPrefix", "the prefix must be fp, b or q")
    index = _parse_index(digits)
    if index is None:
        raise _malformed(field, "InvalidIndex", "the index must be a decimal number from 0 to 65535")
    return prefix, index


def entry_id(ms: int, seq: int) -> str:
    """Spell the id of a stream entry."""
    return f"{ms}-{seq}"


def parse_entry_id(field: str, text: str, missing_seq: int = 0) -> tuple[int, int]:
    """Read `<ms>` or `<ms>-<seq>`; `missing_seq` stands in for an absent sequence."""
    match = _ENTRY.fullmatch(text)
    if match is not None:
        ms, seq = int(match[1]), missing_seq if match[2] is None else int(match[2])
        if ms <= MAX_INT and seq <= MAX_INT:
            return ms, seq
    raise _malformed(field, "Malformed", "must look like <ms> or <ms>-<seq>, each at most 2^53 - 1")


def parse_cursor(field: str, text: str, *, upper: bool = False) -> tuple[CursorKind, tuple[int, int] | None]:
    """Read a stream position: `start`, `end`, or an entry id.

    A bare `<ms>` means the first entry of that millisecond, or with `upper` the last one.
    """
    if not text:
        raise _malformed(field, "Empty", "must be start, end, <ms> or <ms>-<seq>")
    if text in {"-", "+"}:
        raise _malformed(field, "BareMarkerRejected", "write start instead of -, and end instead of +")
    if text == "start":
        return "start", None
    if text == "end":
        return "end", None
    return "at", parse_entry_id(field, text, MAX_INT if upper else 0)


def fnv1a64(text: str) -> int:
    """FNV-1a, 64 bits: small, stable, and not for secrets."""
    value = _FNV_OFFSET
    for byte in text.encode():
        value = (value ^ byte) * _FNV_PRIME & _U64
    return value


def xor8hex(text: str) -> str:
    """Fold a hash to eight hex digits, for logs."""
    value = fnv1a64(text)
    return f"{value & 0xFFFFFFFF ^ value >> 32:08x}"


def u16_mod(text: str, modulus: int) -> int:
    """Spread text over `modulus` places; 0 when there are none."""
    return (fnv1a64(text) & 0xFFFF) % modulus if modulus else 0


def _parse_index(digits: str) -> int | None:
    if _INDEX.fullmatch(digits) is None or int(digits) > 65_535:
        return None
    return int(digits)


def _malformed(field: str, reason: str, text: str) -> FlowFabricError:
    return refuse("invalid_input", reason, text=text, field=field)
