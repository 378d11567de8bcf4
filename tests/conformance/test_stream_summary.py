"""Summaries: a document per attempt that merge patches build."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowfabric.model.limits import MAX_SUMMARY_BYTES
from support.driver import Driver
from support.frames import append, frames, numbered, patch, payloads, read, summary
from support.waiting import let_go, refused


async def document(ff: Driver, task: Any) -> Any:
    view = await summary(ff, task)
    assert view is not None
    return json.loads(view.document)


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"d": value}
    return value


@pytest.mark.parametrize(
    ("patches", "result"),
    [
        ([{"a": 1}], {"a": 1}),
        ([{"a": 1}, {"b": 2}], {"a": 1, "b": 2}),
        ([{"a": 1}, {"a": None}], {}),
        ([{"a": {"b": 1, "c": 2}}, {"a": {"b": None, "d": 3}}], {"a": {"c": 2, "d": 3}}),
        ([{"a": 1}, {"a": {"b": 2}}], {"a": {"b": 2}}),
        ([{"a": {"b": 2}}, {"a": [1]}], {"a": [1]}),
        ([{"a": [1, 2]}, {"a": []}], {"a": []}),
        ([{"a": {}}], {"a": {}}),
        ([{"a": [{"b": None}]}], {"a": [{"b": None}]}),
        ([{"a": {"b": None}}], {"a": {}}),
        ([{"missing": None}], {}),
        ([{"a": "__ff_null__"}], {"a": None}),
        ([{"a": {"b": "__ff_null__"}}, {"a": {"c": 1}}], {"a": {"b": None, "c": 1}}),
        ([{"a": ["__ff_null__"]}], {"a": [None]}),
        ([{"é": "ü\u0000"}], {"é": "ü\u0000"}),
        ([{}], {}),
    ],
)
async def test_patches_build_the_document(ff: Driver, patches: list[Any], result: Any) -> None:
    task = await ff.running()
    for number, value in enumerate(patches, 1):
        (one,) = await ff.store.apply(patch(task, value))
        assert (one.summary_version, one.frame_count) == (number, number)
    assert await document(ff, task) == result


@pytest.mark.parametrize(
    "number",
    [
        "12345678901234567890123",
        "9007199254740993",
        "-0.1",
        "1.0",
        "1",
        "0.1234567890123456789012345",
        "1e2",
        "1E400",
    ],
)
async def test_numbers_stay_exact(ff: Driver, number: str) -> None:
    task = await ff.running()
    await ff.store.apply(patch(task, b'{"n":' + number.encode() + b"}"))
    await ff.store.apply(patch(task, {"other": True}))
    view = await summary(ff, task)
    assert view is not None
    assert json.loads(view.document, parse_int=str, parse_float=str)["n"] == number


async def test_the_view_tells_version_and_times(ff: Driver) -> None:
    task = await ff.running()
    assert await summary(ff, task) is None
    start = ff.now
    await ff.store.apply(patch(task, {"a": 1}))
    ff.clock.advance(6)
    await ff.store.apply(patch(task, {"b": 1}))
    view = await summary(ff, task)
    assert view is not None
    assert (view.version, view.patch_kind) == (2, "json-merge-patch")
    assert (view.first_applied_ms, view.last_updated_ms) == (start, start + 6)


async def test_each_patch_is_a_frame_too(ff: Driver) -> None:
    task = await ff.running()
    await ff.store.apply(frames(task, b'{"a":1}', mode="summary", patch_kind="json-merge-patch"))
    await append(ff, task, b"plain")
    await ff.store.apply(patch(task, b'{"b":1}'))
    shown = [(view.frame.payload, view.frame.summary_version) for view in (await read(ff, task)).frames]
    assert shown == [(b'{"a":1}', 1), (b"plain", 0), (b'{"b":1}', 2)]


async def test_patches_are_trimmed_to_64(ff: Driver) -> None:
    task = await ff.running()
    await append(ff, task, *numbered(1, 3))
    for number in range(70):
        await ff.store.apply(patch(task, {"n": number}))
    kept = payloads(await read(ff, task))
    assert (len(kept), kept[0], kept[-1]) == (64, b'{"n": 6}', b'{"n": 69}')
    view = await summary(ff, task)
    assert view is not None
    assert (view.version, json.loads(view.document)) == (70, {"n": 69})


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"", "patch payload is not valid JSON"),
        (b"{", "patch payload is not valid JSON"),
        (b"\xff", "patch payload is not valid JSON"),
        (b'{"a": NaN}', "patch payload is not valid JSON"),
        (b'{"a": 1} x', "patch payload is not valid JSON"),
        (b"[]", "patch must be a JSON object"),
        (b"null", "patch must be a JSON object"),
        (b'"x"', "patch must be a JSON object"),
        (b"5", "patch must be a JSON object"),
    ],
)
async def test_a_patch_is_a_json_object(ff: Driver, payload: bytes, text: str) -> None:
    task = await ff.running()
    await ff.store.apply(patch(task, {"kept": 1}))
    assert text in (await refused(ff, patch(task, payload), "invalid_input")).text
    assert await document(ff, task) == {"kept": 1}


async def test_a_summary_has_a_limit(ff: Driver) -> None:
    task = await ff.running()
    part = "x" * 60_000
    for number in range(17):
        await ff.store.apply(patch(task, {f"k{number:02}": part}))
    before = await document(ff, task)
    error = await refused(ff, patch(task, {"k17": part}), "payload_too_large")
    assert f"at most {MAX_SUMMARY_BYTES}" in error.text
    assert await document(ff, task) == before
    await ff.store.apply(patch(task, {"k00": None, "k17": part}))
    assert set(await document(ff, task)) == {f"k{number:02}" for number in range(1, 18)}


async def test_a_patch_may_be_17_objects_deep(ff: Driver) -> None:
    task = await ff.running()
    await ff.store.apply(patch(task, nested(17)))
    assert await document(ff, task) == nested(17)
    await refused(ff, patch(task, nested(18)), "patch_depth_exceeded")
    assert await document(ff, task) == nested(17)


async def test_each_attempt_has_a_summary_of_its_own(ff: Driver) -> None:
    first = await ff.running()
    await ff.store.apply(patch(first, {"a": 1}))
    await let_go(ff, first)
    second = await ff.claim_one()
    assert await summary(ff, second) is None
    (one,) = await ff.store.apply(patch(second, {"b": 1}))
    assert one.summary_version == 1
    assert await document(ff, first) == {"a": 1}
    assert await document(ff, second) == {"b": 1}


async def test_a_summary_outlives_its_attempt(ff: Driver) -> None:
    task = await ff.running()
    await ff.store.apply(patch(task, {"a": 1}))
    await ff.complete(task)
    assert await document(ff, task) == {"a": 1}
