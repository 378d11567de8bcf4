"""What a lab does for code around it: handlers that do not return, apps in two labs, callers that are not async."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flowfabric import Context, FlowFabric, FlowFabricError, Frame, TaskFailed
from flowfabric.testing import Lab, StillRunning


async def test_time_passes_over_a_handler_that_has_begun() -> None:
    app = FlowFabric()

    @app.task(timeout="1m")
    async def stuck(ctx: Context) -> None:
        await asyncio.Event().wait()

    async with Lab(app) as lab:
        run = await lab.submit(stuck)
        await lab.begun(run)
        await lab.clock.advance("1m")
        with pytest.raises(TaskFailed, match="timeout"):
            await lab.result(run)


async def test_begun_says_when_nothing_begins() -> None:
    app = FlowFabric()

    @app.task
    async def job() -> None: ...

    async with Lab(app, patience="100ms") as lab:
        run = await app.options(delay="1h").submit(job)
        with pytest.raises(StillRunning, match="no handler works on"):
            await lab.begun(run)


async def test_an_app_is_in_one_lab_at_a_time() -> None:
    app = FlowFabric()
    app.task(name="job")(lambda: None)
    async with Lab(app):
        with pytest.raises(AssertionError, match="in a lab already"):
            async with Lab(app):
                pass


@pytest.mark.parametrize("early", [True, False])
async def test_code_that_is_not_async_meets_the_lab_too(tmp_path: Path, early: bool) -> None:
    file = tmp_path / "real.db"
    app = FlowFabric(str(file))

    @app.task
    async def double(ctx: Context, number: int) -> int:
        await ctx.emit("token", str(number))
        return number * 2

    def view() -> tuple[int, list[str]]:
        run = app.sync.options(tags={"by": "view"}).submit(double, 21)
        frames = [item.text for item in run.stream() if isinstance(item, Frame)]
        return app.sync.run(run.id, double).result(timeout="10s"), frames

    if early:
        assert app.sync is not None
    async with Lab(app):
        assert await asyncio.to_thread(view) == (42, ["21"])
        with pytest.raises(RuntimeError, match="to_thread"):
            app.sync.submit(double, 1)
    assert not file.exists()
    app.sync.close()


@pytest.mark.parametrize("late", [False, True])
async def test_somebody_visits_an_approval_link(late: bool) -> None:
    app = FlowFabric()
    mails: list[str] = []

    @app.task
    async def publish(ctx: Context) -> str:
        waitpoint = await ctx.create_waitpoint("agreement", expires="7d")
        link = await ctx.approval_link(waitpoint, "approve", expires="1d", to="ada")
        await ctx.step("mail", mails.append, link)
        answer = await ctx.wait_for_signal("approve", waitpoint=waitpoint)
        return f"{answer.name} by {answer.source}"

    async with Lab(app) as lab:
        run = await lab.submit(publish)
        await lab.settle()
        (link,) = mails
        if late:
            await lab.clock.advance("1d")
            with pytest.raises(AssertionError, match="has expired"):
                await lab.visit(link)
            return
        await lab.visit(link)
        assert await lab.result(run) == "approve by ada"
        with pytest.raises(FlowFabricError):
            await lab.visit(link)
        with pytest.raises(FlowFabricError, match="not made by"):
            await lab.visit("https://example.org")


async def test_a_visitor_of_a_link_chooses_and_comments() -> None:
    app = FlowFabric()
    links: list[str] = []

    @app.task
    async def publish(ctx: Context) -> str:
        waitpoint = await ctx.create_waitpoint("agreement", message="Publish?")
        links.append(await ctx.approval_link(waitpoint, "approve", "reject"))
        answer = await ctx.wait_for_signal("approve", "reject", waitpoint=waitpoint)
        return f"{answer.name} by {answer.source}: {answer.payload['comment']}"

    async with Lab(app) as lab:
        run = await lab.submit(publish)
        await lab.settle()
        with pytest.raises(AssertionError, match="offers approve, reject"):
            await lab.visit(links[0], "other")
        await lab.visit(links[0], "reject", comment="not yet", by="bea")
        assert await lab.result(run) == "reject by bea: not yet"
        assert links == [links[0]] * 2  # the handler ran again and made the same link
