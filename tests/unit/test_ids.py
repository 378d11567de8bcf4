"""Spelling, placement and derivation of ids."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.model import ids
from flowfabric.model.errors import InvalidInput
from flowfabric.model.limits import MAX_INT

if TYPE_CHECKING:
    from collections.abc import Callable

FLOW_ID = "550e8400-e29b-41d4-a716-446655440000"
NIL = "00000000-0000-0000-0000-000000000000"
UUID = "f47ac10b-58cc-4372-a567-0e02b2c3d479"
ONES = "11111111-1111-1111-1111-111111111111"
DEFAULT = ids.Partitions()

uuids = st.uuids().map(str)


def raw(text: str) -> bytes:
    return uuid.UUID(text).bytes


@pytest.mark.parametrize(
    ("data", "crc", "mod_256", "mod_64", "mod_32"),
    [
        (b"123456789", 0x31C3, 195, 3, 3),
        (raw(FLOW_ID), 0x9018, 24, 24, 24),
        (raw(UUID), 0xA5CC, 204, 12, 12),
        (raw(ONES), 0x5006, 6, 6, 6),
        (raw("018f3c2e-7b1a-7c3d-9e4f-a1b2c3d4e5f6"), 0x2EA4, 164, 36, 4),
        (raw("ffffffff-ffff-ffff-ffff-ffffffffffff"), 0x0041, 65, 1, 1),
        (raw(NIL), 0, 0, 0, 0),
        (b"default", 0xD656, 86, 22, 22),
        (b"workers-a", 0x2EC1, 193, 1, 1),
        (b"gpu", 0x3890, 144, 16, 16),
        (b"lane-1", 0x3AAD, 173, 45, 13),
    ],
)
def test_partition_vectors(data: bytes, crc: int, mod_256: int, mod_64: int, mod_32: int) -> None:
    assert ids.crc16(data) == crc
    assert [ids.partition_of(data, n) for n in (256, 64, 32)] == [mod_256, mod_64, mod_32]


def test_no_partitions_is_refused_by_the_name_of_the_setting() -> None:
    with pytest.raises(InvalidInput) as caught:
        ids.partition_of(b"x", 0)
    assert caught.value.field == "num_flow_partitions"
    with pytest.raises(InvalidInput, match="num_budget_partitions"):
        ids.partition_of_uuid(NIL, 0, "num_budget_partitions")


def test_counts_are_checked_by_family() -> None:
    assert (DEFAULT.flow, DEFAULT.budget, DEFAULT.quota) == (256, 32, 32)
    ids.Partitions(1, 65_535, 1).check()
    for family in ("flow", "budget", "quota"):
        for count in (0, -1, 65_536, True):
            with pytest.raises(InvalidInput) as caught:
                ids.Partitions(**{family: count}).check()
            assert caught.value.field == f"num_{family}_partitions"


def test_whole_ids() -> None:
    assert ids.for_flow(FLOW_ID, DEFAULT, UUID) == f"{{fp:24}}:{UUID}"
    assert ids.solo("default", DEFAULT, ONES) == f"{{fp:86}}:{ONES}"
    assert ids.solo("gpu", DEFAULT, NIL) == f"{{fp:144}}:{NIL}"
    assert ids.spread(UUID, DEFAULT) == f"{{fp:204}}:{UUID}"
    assert (
        ids.for_key("ns", "k", UUID, DEFAULT) == f"{{fp:{ids.crc16(b'ns' + bytes(1) + b'k') % 256}}}:{UUID}"
    )


def test_solo_partitioner_is_replaceable_but_held_to_its_range() -> None:
    assert ids.solo("gpu", DEFAULT, UUID, lambda lane, _: len(lane)) == f"{{fp:3}}:{UUID}"
    with pytest.raises(InvalidInput, match="partitioner"):
        ids.solo("gpu", DEFAULT, UUID, lambda _, partitions: partitions.flow)
    with pytest.raises(InvalidInput, match="partitioner"):
        ids.solo("gpu", DEFAULT, UUID, lambda _lane, _partitions: -1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        UUID.upper(),
        UUID.replace("-", ""),
        f"urn:uuid:{UUID}",
        f"{{{UUID}}}",
        f"{UUID}\n",
        f" {UUID}",
        UUID[:-1],
    ],
)
def test_minting_refuses_other_spellings(text: str) -> None:
    calls: list[tuple[Callable[..., str], tuple[object, ...]]] = [
        (ids.check_uuid, ("uuid", text)),
        (ids.spread, (text, DEFAULT)),
        (ids.solo, ("x", DEFAULT, text)),
        (ids.for_flow, (FLOW_ID, DEFAULT, text)),
        (ids.for_flow, (text, DEFAULT, UUID)),
        (ids.for_key, ("n", "k", text, DEFAULT)),
    ]
    for make, args in calls:
        with pytest.raises(InvalidInput) as caught:
            make(*args)
        assert caught.value.details == ("InvalidUuid",)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "MissingTag"),
        (UUID, "MissingTag"),
        (f"{{fp:1}}{UUID}", "MissingTag"),
        (f"{{fp:1:{UUID}", "MissingTag"),
        (f"{{b:1}}:{UUID}", "MissingTag"),
        (f"{{FP:1}}:{UUID}", "MissingTag"),
        (f" {{fp:1}}:{UUID}", "MissingTag"),
        (f"fp:1}}:{UUID}", "MissingTag"),
        (f"{{fp:}}:{UUID}", "InvalidPartitionIndex"),
        (f"{{fp:01}}:{UUID}", "InvalidPartitionIndex"),
        (f"{{fp:+1}}:{UUID}", "InvalidPartitionIndex"),
        (f"{{fp:-1}}:{UUID}", "InvalidPartitionIndex"),
        (f"{{fp: 1}}:{UUID}", "InvalidPartitionIndex"),
        (f"{{fp:65536}}:{UUID}", "InvalidPartitionIndex"),
        (f"{{fp:{'9' * 5000}}}:{UUID}", "InvalidPartitionIndex"),
        (f"{{fp:\u0661}}:{UUID}", "InvalidPartitionIndex"),
        (f"{{fp:x}}:{UUID}", "InvalidPartitionIndex"),
        ("{fp:1}:", "InvalidUuid"),
        ("{fp:1}:nope", "InvalidUuid"),
        (f"{{fp:1}}:{UUID.upper()}", "InvalidUuid"),
        (f"{{fp:1}}:{UUID.replace('-', '')}", "InvalidUuid"),
        (f"{{fp:1}}:urn:uuid:{UUID}", "InvalidUuid"),
        (f"{{fp:1}}:{{{UUID}}}", "InvalidUuid"),
        (f"{{fp:1}}:{UUID}\n", "InvalidUuid"),
        (f"{{fp:1}}:}}:{UUID}", "InvalidUuid"),
    ],
)
def test_malformed_execution_ids(text: str, reason: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ids.parse_execution_id(text)
    assert (caught.value.field, caught.value.details) == ("execution_id", (reason,))


@given(st.integers(0, 65_535), uuids)
def test_execution_ids_round_trip(index: int, uuid_text: str) -> None:
    text = ids.execution_id(index, uuid_text)
    assert ids.parse_execution_id(text) == (index, uuid_text)
    assert ids.partition_in(text) == index


@given(st.text("{}fp:b0123456789-+aF \n", max_size=60))
def test_whatever_parses_is_canonical(text: str) -> None:
    try:
        index, uuid_text = ids.parse_execution_id(text)
    except InvalidInput:
        return
    assert ids.execution_id(index, uuid_text) == text


def test_index_must_fit_the_configured_count() -> None:
    assert ids.check_execution_id(f"{{fp:255}}:{UUID}", DEFAULT) == 255
    with pytest.raises(InvalidInput) as caught:
        ids.check_execution_id(f"{{fp:256}}:{UUID}", DEFAULT)
    assert caught.value.details == ("PartitionOutOfRange", "256", "256")
    assert "num_flow_partitions" in str(caught.value)


@given(uuids, uuids, st.integers(1, 65_535))
def test_minted_ids_fit_the_count_they_were_minted_under(flow_id: str, uuid_text: str, count: int) -> None:
    partitions = ids.Partitions(flow=count)
    home = ids.crc16(raw(flow_id)) % count
    assert ids.check_execution_id(ids.for_flow(flow_id, partitions, uuid_text), partitions) == home
    assert ids.check_execution_id(ids.spread(flow_id, partitions), partitions) == home
    first, second = (ids.for_key("ns", "key", text, partitions) for text in (flow_id, uuid_text))
    assert ids.check_execution_id(first, partitions) == ids.check_execution_id(second, partitions)


def test_mint_is_the_same_everywhere_and_leads_nowhere() -> None:
    assert ids.mint(UUID, "lease") == ids.mint(UUID, "lease")
    minted = [ids.mint(UUID, purpose) for purpose in (ids.LEASE, ids.ATTEMPT, ids.NEXT)]
    assert len({UUID, *minted}) == 4
    assert not set(minted) & {
        ids.mint(known, purpose) for known in minted for purpose in ("lease", "attempt")
    }


@given(uuids)
def test_minted_ids_are_valid(base: str) -> None:
    for purpose in (ids.LEASE, ids.ATTEMPT, ids.NEXT):
        assert ids.check_uuid("id", ids.mint(base, purpose))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "MissingBraces"),
        ("{", "MissingBraces"),
        ("fp:1", "MissingBraces"),
        ("{fp:1", "MissingBraces"),
        ("fp:1}", "MissingBraces"),
        ("{fp:1}\n", "MissingBraces"),
        ("{}", "MalformedBody"),
        ("{fp}", "MalformedBody"),
        ("{fp:1:2}", "MalformedBody"),
        ("{:1}", "UnknownFamilyPrefix"),
        ("{x:1}", "UnknownFamilyPrefix"),
        ("{FP:1}", "UnknownFamilyPrefix"),
        ("{fp:}", "InvalidIndex"),
        ("{fp:-1}", "InvalidIndex"),
        ("{b:65536}", "InvalidIndex"),
        ("{q:01}", "InvalidIndex"),
        ("{q:1 }", "InvalidIndex"),
    ],
)
def test_malformed_partition_keys(text: str, reason: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ids.parse_partition_key(text)
    assert caught.value.details == (reason,)


@given(st.sampled_from(ids.FAMILIES), st.integers(0, 65_535))
def test_partition_keys_round_trip(prefix: str, index: int) -> None:
    assert ids.parse_partition_key(ids.partition_key(prefix, index)) == (prefix, index)


@given(st.integers(0, MAX_INT), st.integers(0, MAX_INT))
def test_entry_ids_round_trip(ms: int, seq: int) -> None:
    assert ids.parse_entry_id("from", ids.entry_id(ms, seq)) == (ms, seq)


def test_cursors() -> None:
    assert ids.parse_cursor("from", "start") == ("start", None)
    assert ids.parse_cursor("to", "end") == ("end", None)
    assert ids.parse_cursor("from", "17-3") == ("at", (17, 3))
    assert ids.parse_cursor("from", "17") == ("at", (17, 0))
    assert ids.parse_cursor("to", "17", upper=True) == ("at", (17, MAX_INT))
    assert ids.parse_cursor("to", "17-3", upper=True) == ("at", (17, 3))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Empty"),
        ("-", "BareMarkerRejected"),
        ("+", "BareMarkerRejected"),
        (" ", "Malformed"),
        ("Start", "Malformed"),
        ("$", "Malformed"),
        ("1-", "Malformed"),
        ("-1", "Malformed"),
        ("1-2-3", "Malformed"),
        ("1_0", "Malformed"),
        ("+1", "Malformed"),
        ("1-2\n", "Malformed"),
        ("\u0661", "Malformed"),
        (str(MAX_INT + 1), "Malformed"),
        (f"1-{MAX_INT + 1}", "Malformed"),
        ("9" * 5000, "Malformed"),
    ],
)
def test_malformed_cursors(text: str, reason: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ids.parse_cursor("from", text)
    assert (caught.value.field, caught.value.details) == ("from", (reason,))


def test_small_hash_vectors() -> None:
    assert ids.fnv1a64("") == 0xCBF29CE484222325
    assert ids.fnv1a64("gpu,cuda") == 0x32511BB2804B7648
    assert ids.xor8hex("") == "4fd0bfc1"
    assert ids.xor8hex("gpu,cuda") == "b21a6dfa"
    assert ids.u16_mod("worker-a", 256) == 253
    assert ids.u16_mod("gpu,cuda", 256) == 72
    assert ids.u16_mod("gpu,cuda", 0) == 0
