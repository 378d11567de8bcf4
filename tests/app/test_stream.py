"""Streams: one reader over all attempts, from the beginning or from where another one stopped."""

from __future__ import annotations

import asyncio

import pytest

from flowfabric.app import AttemptStarted, Frame, Run, Superseded
from flowfabric.engine.timers import Timers
from flowfabric.model.errors import InvalidInput
from support.face import Face


def brief(item: Frame | AttemptStarted | Superseded) -> str:
    """Name a frame by its text, an attempt by its number and kind, and what is superseded by its lease."""
    if isinstance(item, Frame):
        return item.text
    if isinstance(item, AttemptStarted):
        return f"{item.attempt}:{item.kind}"
    return f"-{item.lease_epoch}{list(item.kept_steps) or ''}"


async def told(run: Run[object], after: str = "", **options: bool) -> list[str]:
    """Read all of it."""
    return [brief(item) async for item in run.stream(after, **options)]


async def test_reader_sees_every_attempt_and_where_it_begins(face: Face) -> None:
    app = face.app()
    app.task(name="job", retries=1, backoff=0)(lambda: None)
    run = await app.submit("job")
    task = await face.claim()
    await face.emit(task, "a", "b")
    live = run.stream()
    seen = [brief(await anext(live)) for _ in range(3)]
    await face.fail(task, "boom")
    task = await face.claim()
    await face.emit(task, "c")
    await face.fail(task, "bang")
    assert await told(run) == ["0:initial", "1:retry", "c"]
    everything = ["0:initial", "a", "b", "-1", "1:retry", "c"]
    assert await told(run, include_superseded=True) == everything
    assert seen + [brief(item) async for item in live] == everything


async def test_boundary_says_why(face: Face) -> None:
    app = face.app()
    app.task(name="job", retries=1, backoff=0)(lambda: None)
    run = await app.submit("job")
    await face.fail(await face.claim(), "the model was away")
    await face.fail(await face.claim(), "boom")
    starts = [item async for item in run.stream() if isinstance(item, AttemptStarted)]
    assert [start.attempt for start in starts] == [0, 1]
    assert "the model was away" in starts[1].reason


async def test_reader_goes_on_where_another_stopped(face: Face) -> None:
    app = face.app()
    app.task(name="job")(lambda: None)
    run = await app.submit("job")
    task = await face.claim()
    await face.emit(task, "a", "b")
    items = run.stream()
    assert isinstance(await anext(items), AttemptStarted)
    first = await anext(items)
    await items.aclose()
    assert isinstance(first, Frame)
    await face.emit(task, "c")
    await face.fail(task, "boom")
    assert await told(run, first.position) == ["b", "c"]


async def test_long_streams_come_whole(face: Face) -> None:
    app = face.app()
    app.task(name="job")(lambda: None)
    run = await app.submit("job")
    task = await face.claim()
    texts = [str(n) for n in range(250)]
    await face.emit(task, *texts)
    await face.fail(task, "boom")
    assert (await told(run))[1:] == texts


async def test_run_that_never_started_ends_its_stream(face: Face) -> None:
    app = face.app()
    app.task(name="job", deadline="1m")(lambda: None)
    run = await app.submit("job")
    reading = asyncio.create_task(told(run))
    face.clock.advance(60_000)
    await Timers(face.engine).fire_due()
    assert await reading == []


@pytest.mark.parametrize("after", ["x", "1", "a.1-0", "0.x", "9999999999.1-0"])
async def test_position_that_is_none_is_refused(face: Face, after: str) -> None:
    app = face.app()
    app.task(name="job")(lambda: None)
    run = await app.submit("job")
    with pytest.raises(InvalidInput) as refused:
        await told(run, after)
    assert refused.value.field == "after"


async def test_frames_are_read_as_text_or_json(face: Face) -> None:
    app = face.app()
    app.task(name="job")(lambda: None)
    run = await app.submit("job")
    task = await face.claim()
    await face.emit(task, '{"a":1}')
    items = run.stream()
    await anext(items)
    frame = await anext(items)
    await items.aclose()
    assert isinstance(frame, Frame)
    assert (frame.type, frame.text, frame.data) == ("token", '{"a":1}', {"a": 1})
