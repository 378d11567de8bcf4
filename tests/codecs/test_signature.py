"""Arguments find their parameters, whoever wrote them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec
import pydantic
import pytest

from flowfabric.codecs import BYTES, JSON, Codec, Signature
from flowfabric.model.errors import InvalidInput


@dataclasses.dataclass
class Point:
    x: int


class Person(pydantic.BaseModel):
    name: str


class Packed:
    """MessagePack, which minds types."""

    name = "msgpack"

    def encode(self, value: Any) -> bytes:
        return msgspec.msgpack.encode(value)

    def decode(self, data: bytes, type_: Any) -> Any:
        return msgspec.msgpack.decode(data, type=type_)


class Careless(Packed):
    """The same, minding no types."""

    def decode(self, data: bytes, type_: Any) -> Any:
        return msgspec.msgpack.decode(data)


def review(doc: str, pages: int = 1, *, strict: bool = False) -> None: ...
def move(point: Point, people: list[Person]) -> None: ...
def store(data: bytes) -> None: ...
def nothing() -> None: ...
def anything(value) -> None: ...  # type: ignore[no-untyped-def]
def mapping(value: dict[str, int]) -> None: ...
def optional(limit: int = 5) -> None: ...
def placed(ctx: Any, a: int, b: int = 2, /, c: int = 3) -> None: ...


def refusal(signature: Signature, data: bytes, encoding: str = "json") -> InvalidInput:
    with pytest.raises(InvalidInput) as refused:
        signature.unbind(data, encoding)
    return refused.value


@pytest.mark.parametrize("codec", [None, Packed(), Careless()])
def test_calls_travel_as_objects_keyed_by_names(codec: Codec | None) -> None:
    signature = Signature.of(review) if codec is None else Signature.of(review, codec=codec)
    data, encoding = signature.bind(("text",), {"strict": True})
    assert encoding == ("json" if codec is None else "msgpack")
    if codec is None:
        assert msgspec.json.decode(data) == {"doc": "text", "strict": True}
    assert signature.unbind(data, encoding) == {"doc": "text", "strict": True}


def test_types_of_parameters_come_back() -> None:
    signature = Signature.of(move)
    sent = signature.bind((Point(1),), {"people": [Person(name="Ada")]})
    assert signature.unbind(*sent) == {"point": Point(1), "people": [Person(name="Ada")]}


@pytest.mark.parametrize(
    ("function", "data", "meant"),
    [
        (review, b'"text"', {"doc": "text"}),
        (anything, b"[1,2]", {"value": [1, 2]}),
        (anything, b'{"other":1}', {"value": {"other": 1}}),
        (anything, b"null", {"value": None}),
        (mapping, b'{"a":1}', {"value": {"a": 1}}),
        (mapping, b"{}", {"value": {}}),
        (nothing, b"null", {}),
        (nothing, b"{}", {}),
        (nothing, b"", {}),
        (optional, b"null", {}),
        (optional, b"{}", {}),
        (optional, b"7", {"limit": 7}),
    ],
)
def test_what_is_no_object_of_names_binds_whole_to_the_first(
    function: Any, data: bytes, meant: dict[str, Any]
) -> None:
    assert Signature.of(function).unbind(data, "json") == meant


@pytest.mark.parametrize("codec", [Packed(), Careless()])
def test_other_codecs_bind_whole_too(codec: Codec) -> None:
    data = codec.encode("text")
    assert Signature.of(review, codec=codec).unbind(data, "msgpack") == {"doc": "text"}


def test_sole_bytes_parameter_is_the_raw_input() -> None:
    signature = Signature.of(store)
    assert signature.bind((b"\x00\xff",), {}) == (b"\x00\xff", BYTES)
    for encoding in (BYTES, "json", "", "whatever"):
        assert signature.unbind(b'{"data":1}', encoding) == {"data": b'{"data":1}'}
    with pytest.raises(InvalidInput, match="give bytes, not str"):
        signature.bind(("text",), {})


def test_bytes_without_a_name_are_read_as_the_codec_writes() -> None:
    assert Signature.of(review).unbind(b'{"doc":"x"}', BYTES) == {"doc": "x"}
    assert Signature.of(review).unbind(b'{"doc":"x"}', "") == {"doc": "x"}


@pytest.mark.parametrize(
    ("function", "data", "field", "text"),
    [
        (review, b"", "doc", "missing"),
        (review, b'{"pages":1}', "doc", "missing"),
        (review, b"{}", "doc", "missing"),
        (review, b'{"doc":"x","other":1}', "other", "review takes doc, pages, strict"),
        (review, b'{"doc":1}', "doc", "Expected `str`, got `int`"),
        (review, b"3", "doc", "Expected `str`, got `int`"),
        (review, b"{", "doc", "not JSON"),
        (move, b'{"point":{"x":1},"people":[{"name":2}]}', "people[0]", "name"),
        (move, b'{"x":"1"}', "point.x", "Expected `int`"),
        (move, b'{"x":1}', "people", "missing"),
        (review, b'{"dok":"x"}', "dok", "no such parameter: review takes doc, pages, strict; missing: doc"),
        (review, b'{"pages":1,"dok":"x"}', "dok", "missing: doc"),
        (review, b'{"a":1,"b":2}', "a", "; unknown, too: b; missing: doc"),
        (optional, b'{"x":1}', "x", "no such parameter: optional takes limit"),
        (move, b'{"adress":1}', "adress", "missing: point, people; and as point itself it does not fit: "),
        (nothing, b"3", "input", "takes no arguments"),
        (mapping, b'{"a":"b"}', "value[...]", "Expected `int`"),
    ],
)
def test_what_does_not_fit_names_the_argument(function: Any, data: bytes, field: str, text: str) -> None:
    refused = refusal(Signature.of(function), data)
    assert refused.field == field
    assert text in refused.text


def test_names_that_do_not_fit_are_no_matter_of_types() -> None:
    assert "Expected" not in refusal(Signature.of(review), b'{"dok":"x"}').text


def test_the_schema_of_a_raw_input_says_so() -> None:
    assert Signature.of(store).schema() == {
        "type": "object",
        "properties": {"data": {"type": "string", "format": "binary"}},
        "required": ["data"],
        "additionalProperties": False,
    }


def test_other_encodings_are_refused() -> None:
    assert "msgpack" in refusal(Signature.of(review), b"\x81", "msgpack").text


@pytest.mark.parametrize(
    ("args", "kwargs", "field", "text"),
    [
        ((), {}, "doc", "missing"),
        (("a", 1, True), {}, "", "takes 2 arguments by place, 3 were given"),
        (("a",), {"doc": "b"}, "doc", "twice"),
        (("a",), {"other": 1}, "other", "no such parameter"),
        (("a", object()), {}, "pages", "cannot be written as JSON"),
    ],
)
def test_calls_that_do_not_fit_are_refused_before_they_travel(
    args: tuple[Any, ...], kwargs: dict[str, Any], field: str, text: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        Signature.of(review).bind(args, kwargs)
    assert refused.value.field == field
    assert text in refused.value.text


def test_parameters_that_somebody_else_gives_do_not_travel() -> None:
    signature = Signature.of(placed, skip={"ctx"})
    assert signature.unbind(*signature.bind((1,), {"c": 5})) == {"a": 1, "c": 5}
    assert signature.order({"ctx": "context", "a": 1, "c": 5}) == (["context", 1, 2], {"c": 5})
    assert Signature.of(review).order({"doc": "x"}) == ([], {"doc": "x"})


def test_functions_whose_arguments_cannot_travel_are_refused() -> None:
    def many(*docs: str) -> None: ...
    def odd(first: int, second: Point | Person) -> None: ...
    def unknown(value: Nowhere) -> None: ...  # type: ignore[name-defined] # noqa: F821

    with pytest.raises(TypeError, match=r"\*docs: .*name every parameter"):
        Signature.of(many)
    with pytest.raises(TypeError, match="second: "):
        Signature.of(odd)
    with pytest.raises(TypeError, match="Nowhere"):
        Signature.of(unknown)


def typed(
    a: int = 0,
    b: str | None = None,
    c: Point | None = None,
    d: Sequence[Person] = (),
    e: float = 0,
    f: Any = None,
) -> None: ...


@pytest.mark.parametrize("codec", [JSON, Packed()])
@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"a": "3"}, "a"),
        ({"a": True}, "a"),
        ({"b": 3}, "b"),
        ({"c": Point("no")}, "c.x"),  # type: ignore[arg-type] # that is the point
        ({"c": {"y": 1}}, "c"),
        ({"d": [{"name": 1}]}, "d"),
        ({"e": "1"}, "e"),
        ({"a": 1, "b": None, "e": None}, "e"),
    ],
)
def test_arguments_of_wrong_types_are_not_written(codec: Codec, given: dict[str, Any], place: str) -> None:
    signature = Signature.of(typed, codec=codec)
    with pytest.raises(InvalidInput, match=f"^{place}"):
        signature.bind((), given)


@pytest.mark.parametrize(
    "given",
    [
        {"a": 1, "b": None, "f": "x"},
        {"b": "x", "e": 1},
        {"c": None, "f": {"any": ["thing"]}},
        {"c": Point(1), "d": (Person(name="ann"),)},
        {"c": {"x": 1}, "d": [{"name": "ann"}], "e": 1.5},
    ],
)
def test_what_a_worker_can_read_may_be_written(given: dict[str, Any]) -> None:
    data, encoding = Signature.of(typed).bind((), given)
    assert Signature.of(typed).unbind(data, encoding).keys() == given.keys()
