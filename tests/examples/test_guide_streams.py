"""What docs/guides/streams.md says and shows."""

from __future__ import annotations

import asyncio

from flowfabric import AttemptStarted, Context, FlowFabric, Frame, Superseded


async def test_readers_see_frames_and_attempts(app: FlowFabric) -> None:
    @app.task(retries=1, backoff="10ms")
    async def talk(ctx: Context) -> None:
        await ctx.emit("token", "once")
        await ctx.emit("tool", {"name": "search", "hits": 3})
        if ctx.attempt == 0:
            raise ConnectionError("cut off")

    shown: list[Frame] = []
    async with app.worker():
        run = await app.submit(talk)
        async for item in run.stream():
            if isinstance(item, Frame):
                shown.append(item)
            elif isinstance(item, Superseded):  # the handler runs again, and emits anew
                shown = [frame for frame in shown if not item.covers(frame)]
        text = [frame.text if frame.type == "token" else frame.data["name"] for frame in shown]
        assert text == ["once", "search"]

        frames = [item async for item in run.stream() if isinstance(item, Frame)]
        assert frames == shown
        rest = [item async for item in run.stream(after=frames[0].position)]
        assert rest == frames[1:]
        everything = [item async for item in run.stream(include_superseded=True)]
        assert [item.attempt for item in everything if isinstance(item, Frame)] == [0, 0, 1, 1]
        assert [item.attempt for item in everything if isinstance(item, AttemptStarted)] == [0, 1]


async def test_what_a_step_emits_is_emitted_once(app: FlowFabric) -> None:
    @app.task
    async def write(ctx: Context) -> str:
        async def words() -> str:
            for word in ("one", "two"):
                await ctx.emit("token", word)
            return "one two"

        text = await ctx.step("write", words)
        await ctx.wait_for_signal("approve")
        return text

    async with app.worker():
        run = await app.submit(write)
        await run.approve(within="10s")
        assert await run.result(timeout="30s") == "one two"
        frames = [item.text async for item in run.stream() if isinstance(item, Frame)]
    assert frames == ["one", "two"]


async def test_progress_is_part_of_the_status(app: FlowFabric) -> None:
    @app.task
    async def load(ctx: Context) -> None:
        await ctx.progress(40, "loading")

    async with app.worker():
        run = await app.submit(load)
        await run.result(timeout="30s")
        status = await run.status()
    assert (status.progress, status.message) == (40, "loading")


async def test_readers_that_are_not_async(app: FlowFabric) -> None:
    @app.task
    async def talk(ctx: Context) -> None:
        await ctx.emit("token", "hello")

    async with app.worker():
        run = await app.submit(talk)
        await run.result(timeout="30s")

    def read() -> list[str]:
        items = app.sync.run(run.id).stream()
        texts = [item.text for item in items if isinstance(item, Frame)]
        app.sync.close()
        return texts

    assert await asyncio.to_thread(read) == ["hello"]
