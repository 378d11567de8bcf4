"""Frames, summary and progress from within a handler."""

from __future__ import annotations

import asyncio

from flowfabric.model.operations.stream import ReadStream, ReadSummary
from flowfabric.worker import SyncContext
from support.working import Context, Place

NO_RETRY = {"retry_policy": {"max_retries": 0}}


async def test_frames_keep_their_order_and_are_there_at_the_end(place: Place) -> None:
    async def talk(ctx: Context) -> None:
        for n in range(700):
            await ctx.emit("token", f"{n}")
        await ctx.emit("data", {"n": 1}, metadata={"k": "v"})

    async with place.runtime(talk):
        id_ = await place.submit("talk")
        await place.ended(id_)
    page = await place.store.read(ReadStream(execution_id=id_, attempt_index=0, count=1000))
    payloads = [view.frame.payload for view in page.frames]
    assert payloads == [b"%d" % n for n in range(700)] + [b'{"n":1}']
    assert page.closed_reason == "attempt_success"


async def emitted(place: Place, id_: str) -> list[tuple[str, str]]:
    """Read frames: the payload of each, and the step in which it was emitted."""
    page = await place.store.read(ReadStream(execution_id=id_, attempt_index=0, count=1000))
    return [(view.frame.payload.decode(), view.frame.step) for view in page.frames]


async def test_frames_know_the_step_that_emitted_them(place: Place) -> None:
    async def work(ctx: Context) -> None:
        async def inner(text: str) -> None:
            await ctx.emit("token", text)

        async def outer() -> None:
            await ctx.emit("token", "before")
            await ctx.step("inner", inner, "inside")
            await ctx.emit("token", "after")

        await ctx.emit("token", "outside")
        await ctx.step("outer", outer)
        await ctx.step("inner", inner, "again")
        await asyncio.gather(ctx.step("one", inner, "1"), ctx.step("two", inner, "2"))
        await ctx.summary({"a": 1})

    def plain(ctx: SyncContext) -> None:
        ctx.emit("token", "outside")
        ctx.step("inner", ctx.emit, "token", "inside")
        ctx.step("outer", lambda: ctx.step("inner", ctx.emit, "token", "deep"))
        ctx.emit("token", "outside")

    async with place.runtime(work, plain):
        id_, other = await place.submit("work"), await place.submit("plain")
        await place.ended(id_)
        await place.ended(other)
    found = await emitted(place, id_)
    assert found[:5] == [
        ("outside", ""),
        ("before", "outer"),
        ("inside", "inner"),
        ("after", "outer"),
        ("again", "inner#2"),
    ]
    assert sorted(found[5:7]) == [("1", "one"), ("2", "two")]
    assert [step for _, step in found[7:]] == [""]
    assert await emitted(place, other) == [
        ("outside", ""),
        ("inside", "inner"),
        ("deep", "inner#2"),
        ("outside", ""),
    ]


async def test_summary_and_progress(place: Place) -> None:
    async def talk(ctx: Context) -> None:
        await ctx.summary({"pages": 1, "draft": True})
        await ctx.summary({"draft": None, "pages": 2})
        await ctx.progress(50, "half")

    async with place.runtime(talk):
        id_ = await place.submit("talk")
        run = await place.ended(id_)
    summary = await place.store.read(ReadSummary(execution_id=id_, attempt_index=0))
    assert summary is not None
    assert (run.progress_pct, run.progress_message) == (50, "half")
    assert b'"pages":2' in summary.document.replace(b" ", b"")
    assert b"draft" not in summary.document


async def test_what_was_emitted_before_a_failure_is_there_when_it_is_told(place: Place) -> None:
    async def work(ctx: Context) -> None:
        for n in range(300):
            await ctx.emit("token", str(n))
        raise ValueError("no more")

    def plain(ctx: SyncContext) -> None:
        ctx.emit("token", "a")
        ctx.emit("token", "b")
        raise ValueError("no more")

    async with place.runtime(work, plain):
        for kind, texts in (("work", [str(n) for n in range(300)]), ("plain", ["a", "b"])):
            id_ = await place.submit(kind, policy=NO_RETRY)
            assert (await place.ended(id_)).failure_reason == "ValueError: no more"
            page = await place.store.read(ReadStream(execution_id=id_, attempt_index=0, count=1000))
            assert [view.frame.payload.decode() for view in page.frames] == texts
            assert page.closed_reason == "attempt_failure"
