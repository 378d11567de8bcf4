from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.model.errors import FlowFabricError
from flowfabric.model.merge_patch import MAX_NESTING, apply_patch, patch_kind


def nested(objects: int) -> bytes:
    return b'{"a":' * (objects - 1) + b"{}" + b"}" * (objects - 1)


def refusal(document: bytes, patch: bytes) -> tuple[str, str]:
    with pytest.raises(FlowFabricError) as caught:
        apply_patch(document, patch)
    return caught.value.code, caught.value.text


@pytest.mark.parametrize(
    ("document", "patch", "merged"),
    [
        # The examples of RFC 7396, as far as both sides are objects.
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({"a": "foo"}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": 1}, {}, {"a": 1}),
        ({"a": 1}, {"b": None}, {"a": 1}),
        ({}, {"a": [None, {"b": None}]}, {"a": [None, {"b": None}]}),
        ({"a": {"b": 1}}, {"a": []}, {"a": []}),
        ({}, {"a": "__ff_null__"}, {"a": None}),
        ({}, {"a": {"b": ["__ff_null__", {"c": "__ff_null__"}]}}, {"a": {"b": [None, {"c": None}]}}),
        ({"a": None}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({}, {"__ff_null__": " __ff_null__"}, {"__ff_null__": " __ff_null__"}),
    ],
)
def test_merge(document: Any, patch: Any, merged: Any) -> None:
    assert json.loads(apply_patch(json.dumps(document).encode(), json.dumps(patch).encode())) == merged


def test_first_patch_starts_from_nothing() -> None:
    assert apply_patch(b"", b'{"a":[],"b":{}}') == b'{"a":[],"b":{}}'


@pytest.mark.parametrize(
    "number",
    ["12345678901234567890", "1.10", "1e400", "-0", "1E+2", "0.1000000000000000055", "-1e-400", "9" * 5_000],
)
def test_numbers_keep_their_text(number: str) -> None:
    first = apply_patch(b"", f'{{"n":{number},"list":[{number}]}}'.encode())
    assert first == f'{{"n":{number},"list":[{number}]}}'.encode()
    assert apply_patch(first, b'{"x":1}') == first[:-1] + b',"x":1}'


def test_places_of_keys() -> None:
    assert apply_patch(b'{"a":1,"b":2,"c":3}', b'{"d":4,"b":5,"a":null}') == b'{"b":5,"c":3,"d":4}'


def test_last_duplicate_key_wins() -> None:
    assert apply_patch(b"", b'{"a":1,"b":2,"a":3}') == b'{"a":3,"b":2}'


def test_text_is_kept() -> None:
    assert json.loads(apply_patch(b"", '{"é":"\\u00e9\\n\\"\\\\/😀\\u0000"}'.encode())) == {
        "é": 'é\n"\\/😀\0'
    }


def test_depth() -> None:
    assert apply_patch(b"", nested(17)) == nested(17)
    assert refusal(b"", nested(18))[0] == "patch_depth_exceeded"
    assert refusal(nested(17), nested(18))[0] == "patch_depth_exceeded"


def test_arrays_may_nest_deeper_but_not_for_ever() -> None:
    def arrays(count: int) -> bytes:
        return b'{"a":' + b"[" * count + b"]" * count + b"}"

    deepest = apply_patch(b"", arrays(MAX_NESTING - 1))
    assert apply_patch(deepest, b"{}") == arrays(MAX_NESTING - 1)
    assert refusal(b"", arrays(MAX_NESTING)) == (
        "patch_depth_exceeded",
        f"the patch is nested deeper than {MAX_NESTING} levels",
    )
    for count in (900, 1_000, 100_000):
        assert refusal(b"", arrays(count))[0] == "patch_depth_exceeded"
    assert refusal(b"", b'{"a":[' + nested(100_000) + b"]}")[0] == "patch_depth_exceeded"


@pytest.mark.parametrize(
    "patch",
    [
        b"",
        b"{",
        b"nope",
        b'{"a":NaN}',
        b'{"a":[Infinity]}',
        b'{"a":-Infinity}',
        b'{"a":01}',
        b'{"a":1.}',
        b'{"a":"\xff"}',
        b'{"a":1}x',
        b"{'a':1}",
        b'{"a":"\n"}',
        b"\xef\xbb\xbf{}",
        '{"a":1}'.encode("utf-16"),
        b"[" * 50,
    ],
)
def test_not_json(patch: bytes) -> None:
    assert refusal(b"{}", patch) == ("invalid_input", "patch payload is not valid JSON")


def test_lone_surrogates_are_refused() -> None:
    for patch in (b'{"a":"\\ud800"}', b'{"\\udc00":1}'):
        code, text = refusal(b"{}", patch)
        assert code == "invalid_input"
        assert text.startswith("patch payload is not valid JSON")


@pytest.mark.parametrize("patch", [b"[]", b"1", b'"x"', b"null", b"true"])
def test_root_must_be_an_object(patch: bytes) -> None:
    assert refusal(b"{}", patch) == ("invalid_input", "patch must be a JSON object")


@pytest.mark.parametrize("document", [b"{", b"[]", b"7", b"\xff", b'{"a":NaN}', b"[" * 100_000])
def test_unreadable_document(document: bytes) -> None:
    assert refusal(document, b'{"a":1}')[0] == "corruption"


def test_patch_kind() -> None:
    assert patch_kind("") == patch_kind("json-merge-patch") == "json-merge-patch"
    with pytest.raises(FlowFabricError, match="unsupported patch_kind"):
        patch_kind("json-patch")


keys = st.sampled_from("abc")
leaves = st.none() | st.booleans() | st.integers() | st.sampled_from(["x", "__ff_null__"])
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)
objects = st.dictionaries(keys, values, max_size=3)


def naive_merge(target: Any, patch: Any) -> Any:
    """The pseudo code of RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = naive_merge(result.get(name), value)
    return result


def nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: nulls(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [nulls(inner) for inner in value]
    return None if value == "__ff_null__" else value


@given(st.lists(objects, max_size=4))
def test_like_the_rfc(patches: list[Any]) -> None:
    document, expected = b"", dict[str, Any]()
    for patch in patches:
        document = apply_patch(document, json.dumps(patch).encode())
        expected = nulls(naive_merge(expected, patch))
    assert json.loads(document or b"{}") == expected
