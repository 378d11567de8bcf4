"""Checks of single fields."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.model import checks
from flowfabric.model.errors import FlowFabricError, InvalidInput
from flowfabric.model.limits import MAX_INT

if TYPE_CHECKING:
    from collections.abc import Callable

LONE_SURROGATE = "a\ud800"
NO_BREAK_SPACE = "a\u00a0b"


def refusal(call: Callable[..., object], *args: object) -> FlowFabricError:
    with pytest.raises(FlowFabricError) as caught:
        call(*args)
    # Whatever was sent, the refusal itself can be put on the wire.
    " ".join((str(caught.value), *caught.value.details)).encode()
    return caught.value


def test_text_counts_bytes_not_characters() -> None:
    assert checks.text("reason", "é" * 2, 4) == "éé"
    assert "5 bytes" in str(refusal(checks.text, "reason", "éé!", 4))
    assert checks.text("reason", "tab\tand\nline") == "tab\tand\nline"


def test_text_refuses_what_is_not_text() -> None:
    for value in (None, 1, b"x", ["x"], LONE_SURROGATE, ""):
        error = refusal(checks.text, "reason", value)
        assert (error.code, error.field) == ("invalid_input", "reason")
    assert checks.text("reason", "", empty=True) == ""


@given(st.text())
def test_text_gives_back_what_it_accepts(value: str) -> None:
    assert checks.text("reason", value, 10**6, empty=True) == value


def test_name() -> None:
    assert checks.name("namespace", "x" * 256) == "x" * 256
    assert checks.name("namespace", "team a/é") == "team a/é"
    assert checks.name("creator", "", empty=True) == ""
    for value in ("", "x" * 257, "é" * 129, "a\0", "a\n", "\x7f", "\x85", LONE_SURROGATE, None):
        error = refusal(checks.name, "namespace", value)
        assert (error.code, error.field) == ("invalid_input", "namespace")


def test_worker() -> None:
    assert checks.worker("worker_id", "wörker-1") == "wörker-1"
    assert checks.worker("worker_id", "w" * 256) == "w" * 256
    for value in (
        "",
        "w" * 257,
        "a b",
        "a\t",
        NO_BREAK_SPACE,
        "a\u2003",
        "a\u2028",
        "\x1b",
        "\x85",
        LONE_SURROGATE,
        7,
    ):
        error = refusal(checks.worker, "worker_id", value)
        assert (error.code, error.field) == ("invalid_input", "worker_id")


def test_lane() -> None:
    assert checks.lane("default") == "default"
    assert checks.lane(" ~" * 32) == " ~" * 32


@pytest.mark.parametrize(
    ("value", "details"),
    [
        ("", ("Empty",)),
        ("x" * 65, ("TooLong", "65")),
        ("é" * 33, ("TooLong", "66")),
        ("ab\n", ("NonPrintable", "2")),
        ("aé\n", ("NonPrintable", "1")),
        ("\x7f", ("NonPrintable", "0")),
        (LONE_SURROGATE, ("NonPrintable", "1")),
        (None, ()),
        (b"x", ()),
    ],
)
def test_refused_lanes(value: object, details: tuple[str, ...]) -> None:
    error = refusal(checks.lane, value)
    assert (error.code, error.field, error.details) == ("invalid_input", "lane_id", details)
    assert refusal(checks.lane, value, "lane").field == "lane"


@given(st.text(max_size=70))
def test_accepted_lanes_are_short_printable_ascii(value: str) -> None:
    try:
        checks.lane(value)
    except InvalidInput:
        assert not re.fullmatch("[ -~]{1,64}", value)
    else:
        assert re.fullmatch("[ -~]{1,64}", value)


def test_integer() -> None:
    assert checks.integer("n", 0) == 0
    assert checks.integer("n", MAX_INT) == MAX_INT
    assert checks.integer("n", -5, -5, 5) == -5
    for value in (-1, MAX_INT + 1, True, False, 1.0, "1", None, float("nan")):
        assert refusal(checks.integer, "n", value) == InvalidInput(
            f"must be an integer from 0 to {MAX_INT}", field="n"
        )
    assert "1 to 60000" in str(refusal(checks.integer, "ttl", 60_001, 1, 60_000))


def test_no_range_reaches_beyond_exact_integers() -> None:
    refusal(checks.integer, "n", 2**53, 0, 2**64)
    refusal(checks.integer, "n", -(2**53), -(2**64), 0)


def test_payload() -> None:
    assert checks.payload("input", b"\0\xff", 2) == b"\0\xff"
    assert checks.payload("input", b"", 0) == b""
    error = refusal(checks.payload, "input", b"abc", 2)
    assert (error.code, error.field) == ("payload_too_large", "input")
    assert "at most 2 " in str(error)
    assert refusal(checks.payload, "input", "abc", 2).code == "invalid_input"


SIDES = [("required", checks.required_capabilities), ("worker", checks.worker_capabilities)]


@pytest.mark.parametrize(("side", "check"), SIDES)
@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"gpu": 1}, "not_array"),
        ("gpu", "not_array"),
        (None, "not_array"),
        (3, "not_array"),
        (["gpu", 1], "non_string_token"),
        (["gpu", ["x"]], "non_string_token"),
        (["gpu", ""], "empty_token"),
        (["gpu,cuda"], "comma_in_token"),
        (["a b"], "control_or_whitespace"),
        (["a\n"], "control_or_whitespace"),
        (["\0"], "control_or_whitespace"),
        (["\x7f"], "control_or_whitespace"),
        ([LONE_SURROGATE], "invalid_utf8"),
        ([f"c{n}" for n in range(257)], "too_many_tokens"),
        (["x" * 4097], "too_many_bytes"),
        (["x" * 2048, "y" * 2048], "too_many_bytes"),
        (["é" * 2048, "z"], "too_many_bytes"),
    ],
)
def test_refused_capabilities(side: str, check: Callable[[Any], object], values: Any, reason: str) -> None:
    error = refusal(check, values)
    assert (error.code, error.details) == ("invalid_capabilities", (f"{side}:{reason}",))


@pytest.mark.parametrize(("_side", "check"), SIDES)
def test_accepted_capabilities_are_sorted_once_each(_side: str, check: Callable[[Any], object]) -> None:
    assert check([]) == ()
    assert check(["gpu", "Cuda", "gpu", "zürich"]) == ("Cuda", "gpu", "zürich")
    assert check(frozenset({"b", "a"})) == ("a", "b")
    assert check([f"c{n:03}" for n in range(256)] * 2) == tuple(f"c{n:03}" for n in range(256))
    assert check(("x" * 2047, "y" * 2048)) == ("x" * 2047, "y" * 2048)


def test_only_workers_are_held_to_unicode_white_space() -> None:
    assert checks.required_capabilities([NO_BREAK_SPACE]) == (NO_BREAK_SPACE,)
    for token in (NO_BREAK_SPACE, "a\u2003", "a\x85"):
        error = refusal(checks.worker_capabilities, [token])
        assert error.details == ("worker:control_or_whitespace",)


@given(st.sets(st.sampled_from("abcAB")), st.sets(st.sampled_from("abcAB")))
def test_matching_is_a_subset_test(required: set[str], offered: set[str]) -> None:
    missing = checks.missing_capabilities(sorted(required), sorted(offered))
    assert (not missing) == (required <= offered)
    assert list(missing) == sorted(required - offered)


def test_tags() -> None:
    assert checks.tags({}) == ()
    assert checks.tags({"team.b": "", "a": "é\n", "x-1_y.0.-": "v"}) == (
        ("a", "é\n"),
        ("team.b", ""),
        ("x-1_y.0.-", "v"),
    )
    assert len(checks.tags({f"k{n}": "x" * 1024 for n in range(64)})) == 64
    assert checks.tags({"k" * 128: "v"}) == (("k" * 128, "v"),)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "A",
        "1a",
        "_a",
        "-a",
        ".a",
        "a.",
        "a..b",
        "a b",
        "a.B",
        "a\n",
        "é",
        "a\u0661",
        "k" * 129,
        LONE_SURROGATE,
    ],
)
def test_refused_tag_keys(key: str) -> None:
    error = refusal(checks.tags, {"fine": "", key: "v"})
    assert error.code == "invalid_tag_key"
    assert error.details == (key[:128].replace("\ud800", "\\ud800"),)


def test_tag_keys_must_be_text() -> None:
    assert refusal(checks.tags, {1: "v"}).details == ("1",)


@pytest.mark.parametrize(
    ("mapping", "field"),
    [
        (None, "tags"),
        ([("a", "b")], "tags"),
        ({f"k{n}": "" for n in range(65)}, "tags"),
        ({"a": 1}, "tags.a"),
        ({"a": "x" * 1025}, "tags.a"),
        ({"a": LONE_SURROGATE}, "tags.a"),
    ],
)
def test_refused_tags(mapping: Any, field: str) -> None:
    error = refusal(checks.tags, mapping)
    assert (error.code, error.field) == ("invalid_input", field)
