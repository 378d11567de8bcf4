"""Text that is streamed again does not look doubled: readers are told what counts no more."""

from __future__ import annotations

import asyncio
from pathlib import Path

from flowfabric import Context, FlowFabric
from flowfabric.app import AttemptStarted, Frame, Run, Superseded
from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.lease import Release
from flowfabric.model.operations.step import PutStep
from flowfabric.model.operations.stream import AppendFrames, FrameInput
from flowfabric.model.operations.suspend_resume import ResumeExecution
from support.face import Face

Item = Frame | AttemptStarted | Superseded


def screen(items: list[Item]) -> str:
    """Show what a reader shows that does as the guide says."""
    shown: list[Frame] = []
    for item in items:
        if isinstance(item, Frame):
            shown.append(item)
        elif isinstance(item, Superseded):
            shown = [frame for frame in shown if not item.covers(frame)]
    return " ".join(frame.text for frame in shown)


def kinds(items: list[Item]) -> list[str]:
    return [item.text if isinstance(item, Frame) else type(item).__name__ for item in items]


async def emit(face: Face, task: Task, text: str, step: str = "") -> None:
    frame = FrameInput(payload=text.encode(), frame_type="token", step=step)
    await face.store.apply(AppendFrames(execution_id=task.execution_id, fence=task.fence, frames=(frame,)))


async def put(face: Face, task: Task, name: str) -> None:
    await face.store.apply(
        PutStep(execution_id=task.execution_id, fence=task.fence, step_name=name, result=b"1")
    )


async def resumed(face: Face, task: Task) -> Task:
    await face.suspend(task, "go")
    await face.engine.apply(ResumeExecution(execution_id=task.execution_id))
    return await face.claim()


async def started(face: Face, **options: object) -> tuple[Run[object], Task]:
    app = face.app()
    app.task(name="job", **options)(lambda: None)  # type: ignore[call-overload]
    run = await app.submit("job")
    return run, await face.claim()


async def read(run: Run[object], after: str = "", **options: bool) -> list[Item]:
    return [item async for item in run.stream(after, **options)]


async def test_live_reader_is_told_when_the_handler_runs_again(face: Face) -> None:
    run, task = await started(face)
    await emit(face, task, "intro")
    await emit(face, task, "draft", "write")
    await put(face, task, "write")
    items = run.stream()
    seen: list[Item] = [await anext(items) for _ in range(3)]
    task = await resumed(face, task)
    told = await anext(items)  # before anything is emitted anew
    assert isinstance(told, Superseded)
    assert (told.attempt, told.lease_epoch, told.by_epoch, told.kept_steps) == (0, 1, 2, ("write",))
    assert screen([*seen, told]) == "draft"
    await emit(face, task, "intro")
    await face.fail(task, "boom")
    seen += [told] + [item async for item in items]
    assert kinds(seen) == ["AttemptStarted", "intro", "draft", "Superseded", "intro"]
    assert screen(seen) == "draft intro"


async def test_late_reader_gets_only_what_counts(face: Face) -> None:
    run, task = await started(face)
    await emit(face, task, "intro")
    await emit(face, task, "draft", "write")
    await put(face, task, "write")
    await emit(face, task, "half", "polish")
    await face.store.apply(Release(execution_id=task.execution_id, fence=task.fence))
    task = await face.claim()
    await emit(face, task, "intro")
    task = await resumed(face, task)
    await emit(face, task, "intro")
    await emit(face, task, "whole", "polish")
    await put(face, task, "polish")
    await face.fail(task, "boom")
    late = await read(run)
    assert kinds(late) == ["AttemptStarted", "draft", "AttemptStarted", "intro", "whole"]
    everything = await read(run, include_superseded=True)
    assert kinds(everything) == [
        "AttemptStarted",
        "intro",
        "draft",
        "half",
        "Superseded",
        "AttemptStarted",
        "intro",
        "Superseded",
        "intro",
        "whole",
    ]
    assert screen(everything) == screen(late) == "draft intro whole"


async def test_reader_that_comes_back_is_told_once_what_counts_no_more(face: Face) -> None:
    run, task = await started(face)
    await emit(face, task, "a")
    await emit(face, task, "b")
    items = run.stream()
    seen: list[Item] = [await anext(items) for _ in range(2)]
    await items.aclose()
    task = await resumed(face, task)
    await emit(face, task, "a")
    task = await resumed(face, await resumed(face, task))
    await emit(face, task, "c")
    await face.fail(task, "boom")
    first = seen[-1]
    assert isinstance(first, Frame)
    rest = await read(run, first.position)
    assert kinds(rest) == ["Superseded", "c"]
    assert screen(seen + rest) == "c"
    told = rest[0]
    assert isinstance(told, Superseded)
    assert (told.first, told.lease_epoch) == (first.id, 1)
    assert told.last > first.id  # what it had not got yet is not shown any more
    assert kinds(await read(run, told.position)) == ["c"]


async def test_every_position_goes_on_without_gap_or_repeat(face: Face) -> None:
    run, task = await started(face)
    await emit(face, task, "a", "write")
    await put(face, task, "write")
    task = await resumed(face, task)
    await emit(face, task, "b")
    await face.store.apply(Release(execution_id=task.execution_id, fence=task.fence))
    task = await face.claim()
    await emit(face, task, "c")
    await face.fail(task, "boom")
    await run.replay()
    task = await face.claim()
    await emit(face, task, "d")
    await face.fail(task, "boom")
    everything = await read(run, include_superseded=True)
    assert kinds(everything) == [
        "AttemptStarted",
        "a",
        "Superseded",
        "b",
        "Superseded",
        "AttemptStarted",
        "c",
        "Superseded",
        "AttemptStarted",
        "d",
    ]
    assert screen(everything) == "d"
    for place, item in enumerate(everything):
        assert await read(run, item.position, include_superseded=True) == everything[place + 1 :]
    assert kinds(await read(run)) == ["AttemptStarted", "AttemptStarted", "AttemptStarted", "d"]


async def test_handlers_tell_which_step_they_are_in(face: Face) -> None:
    app = face.app()

    @app.task
    async def write(ctx: Context) -> str:
        async def draft() -> str:
            await ctx.emit("token", "draft")
            return "draft"

        await ctx.emit("token", "intro")
        text = await ctx.step("write", draft)
        await ctx.wait_for_signal("approve")
        return text

    async with app.worker():
        run = await app.submit(write)
        reading = asyncio.create_task(_read(run))
        await run.approve(within="10s")
        assert await run.result(timeout="30s") == "draft"
        live = await reading
    assert screen(live) == "draft intro"
    assert screen([item async for item in run.stream()]) == "draft intro"
    everything = [item async for item in run.stream(include_superseded=True) if isinstance(item, Frame)]
    assert [(frame.text, frame.step, frame.lease_epoch) for frame in everything] == [
        ("intro", "", 1),
        ("draft", "write", 1),
        ("intro", "", 2),
    ]


async def _read(run: Run[str]) -> list[Item]:
    return [item async for item in run.stream()]


async def test_reader_that_is_not_async(tmp_path: Path) -> None:
    app = FlowFabric(str(tmp_path / "work.db"))

    @app.task
    async def talk(ctx: Context) -> None:
        await ctx.emit("token", "hello")
        await ctx.sleep("10ms")

    async with app.worker():
        run = await app.submit(talk)
        await run.result(timeout="30s")

    def texts(*, include_superseded: bool = False) -> list[str]:
        items = app.sync.run(run.id).stream(include_superseded=include_superseded)
        return [item.text for item in items if isinstance(item, Frame)]

    try:
        assert await asyncio.to_thread(texts) == ["hello"]
        assert await asyncio.to_thread(texts, include_superseded=True) == ["hello", "hello"]
    finally:
        await asyncio.to_thread(app.sync.close)
