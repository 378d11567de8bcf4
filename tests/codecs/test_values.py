"""Values become bytes and come back as the types that are asked for."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest

from flowfabric.codecs import BYTES, DecodeFault, EncodeFault, decode_value, encode_value


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Box(msgspec.Struct):
    points: list[Point]


class Row(TypedDict):
    at: datetime


class Colour(Enum):
    RED = "red"


class Person(pydantic.BaseModel):
    name: str
    born: date | None = None


class Pickled:
    name = "pickle"

    def encode(self, value: Any) -> bytes:
        return pickle.dumps(value)

    def decode(self, data: bytes, type_: Any) -> Any:
        return pickle.loads(data)


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (None, None),
        (1, int),
        ([1, 2], tuple[int, ...]),
        (Point(1, 2), Point),
        (Box([Point(3)]), Box),
        ({"at": datetime(2026, 1, 2, tzinfo=UTC)}, Row),
        (Colour.RED, Colour),
        (Decimal("1.10"), Decimal),
        (UUID(int=7), UUID),
        (Person(name="Ada", born=date(1815, 12, 10)), Person),
        ([Person(name="Ada")], list[Person]),
        ({"a": Person(name="Ada")}, dict[str, Person | None]),
    ],
)
def test_values_come_back_as_their_types(value: Any, type_: Any) -> None:
    data, encoding = encode_value(value)
    assert encoding == "json"
    found = decode_value(data, encoding, type_)
    assert list(found) == value if type_ == tuple[int, ...] else found == value


def test_bytes_stay_bytes() -> None:
    assert encode_value(b"\x00\xff") == (b"\x00\xff", BYTES)
    assert encode_value(bytearray(b"\x00")) == (b"\x00", BYTES)
    assert decode_value(b"\x00\xff", BYTES, Any) == b"\x00\xff"
    assert decode_value(b"\x00\xff", "", bytes) == b"\x00\xff"


def test_what_does_not_fit_says_where_and_why() -> None:
    with pytest.raises(DecodeFault) as wrong:
        decode_value(b'{"points":[{"x":1},{"x":"no"}]}', "json", Box)
    assert wrong.value.path == "points[1].x"
    assert wrong.value.text == "Expected `int`, got `str`"
    with pytest.raises(DecodeFault) as wrong:
        decode_value(b'[{"name":1}]', "json", list[Person])
    assert wrong.value.path == "[0]"
    assert "name" in wrong.value.text


@pytest.mark.parametrize("data", [b"", b"{", b'"\xff"', b"[" * 100_000])
def test_what_is_not_json_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(DecodeFault, match="not JSON"):
        decode_value(data, "json", Any)


def test_what_cannot_be_written_names_the_remedy() -> None:
    with pytest.raises(EncodeFault, match="object cannot be written as JSON: use a dataclass"):
        encode_value(object())
    with pytest.raises(DecodeFault, match="give a codec"):
        decode_value(b"{}", "json", type("Odd", (), {}))


def test_codec_of_ones_own_is_named_beside_the_bytes() -> None:
    codec = Pickled()
    data, encoding = encode_value({1, 2}, codec)
    assert encoding == "pickle"
    assert decode_value(data, encoding, Any, codec) == {1, 2}
    with pytest.raises(DecodeFault, match="written as `pickle`"):
        decode_value(data, encoding, Any)


class Broken:
    name = "broken"

    def encode(self, value: Any) -> bytes:
        raise ZeroDivisionError("no")

    def decode(self, data: bytes, type_: Any) -> Any:
        raise ZeroDivisionError("no")


def test_whatever_a_codec_raises_is_a_fault_of_the_value() -> None:
    with pytest.raises(EncodeFault, match="ZeroDivisionError: no"):
        encode_value(1, Broken())
    with pytest.raises(DecodeFault, match="ZeroDivisionError: no"):
        decode_value(b"", "broken", int, Broken())


def test_constraints_of_annotated_types_hold() -> None:
    small = Annotated[int, msgspec.Meta(le=3)]
    assert decode_value(b"3", "json", small) == 3
    with pytest.raises(DecodeFault, match="<= 3"):
        decode_value(b"4", "json", small)
    assert decode_value(b"4", "json", Annotated[int, ["a note that cannot be hashed"]]) == 4


def test_an_object_is_whatever_it_is() -> None:
    assert decode_value(b'[1,{"a":[]}]', "json", list[object]) == [1, {"a": []}]


def test_something_to_iterate_over_is_a_list() -> None:
    assert decode_value(b'[{"name":"ann"}]', "json", Iterable[Person]) == [Person(name="ann")]
    assert decode_value(b"[1]", "json", Iterable) == [1]
    with pytest.raises(DecodeFault, match="Expected `int`, got `str`"):
        decode_value(b'["a"]', "json", Iterable[int])
