"""What docs/guides/code-changes.md says and shows: one store, an old program and a new one."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowfabric import Context, FlowFabric, TaskFailed


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "work.db")


async def old_run(store: str) -> str:
    """Start a run of the old program, which has done one step and waits."""
    async with FlowFabric(store) as app:

        @app.task
        async def order(ctx: Context, item: str) -> str:
            paid = await ctx.step("charge", lambda: f"{item} paid")
            await ctx.wait_for_signal("packed")
            return await ctx.step("ship", lambda: f"{paid}, shipped")

        async with app.worker():
            run = await app.submit(order, "book")
            await waits(app, run.id)
            return run.id


async def waits(app: FlowFabric, run: str) -> None:
    opened = await app._core.connection.get()
    async with opened.subscribe([f"execution:{run}"]) as woken:
        while (await app.run(run).status()).state != "suspended":
            await woken.wait(5)


async def test_steps_that_are_added_after_what_is_done_are_fine(store: str) -> None:
    run = await old_run(store)
    async with FlowFabric(store) as app:

        @app.task
        async def order(ctx: Context, item: str, gift: bool = False) -> str:
            paid = await ctx.step("charge", lambda: f"{item} paid")
            await ctx.wait_for_signal("packed")
            insured = await ctx.step("insure", lambda: f"{paid}, insured")
            return await ctx.step("ship", lambda: f"{insured}, shipped")

        async with app.worker():
            await app.run(run).signal("packed")
            assert await app.run(run).result(timeout="30s") == "book paid, insured, shipped"


async def test_another_order_is_refused(store: str) -> None:
    run = await old_run(store)
    async with FlowFabric(store) as app:

        @app.task
        async def order(ctx: Context, item: str) -> str:
            await ctx.step("check stock", lambda: True)
            paid = await ctx.step("charge", lambda: f"{item} paid")
            await ctx.wait_for_signal("packed")
            return await ctx.step("ship", lambda: f"{paid}, shipped")

        async with app.worker():
            await app.run(run).signal("packed")
            with pytest.raises(TaskFailed) as failure:
                await app.run(run).result(timeout="30s")
    assert failure.value.category == "step_mismatch"
    assert "stored as 'charge', and the handler now asks for 'check stock'" in failure.value.reason
    assert "version=2" in failure.value.reason


async def test_versions_live_side_by_side(store: str) -> None:
    run = await old_run(store)
    async with FlowFabric(store) as app:

        @app.task(name="order")
        async def order_1(ctx: Context, item: str) -> str:
            paid = await ctx.step("charge", lambda: f"{item} paid")
            await ctx.wait_for_signal("packed")
            return await ctx.step("ship", lambda: f"{paid}, shipped")

        @app.task(version=2)
        async def order(ctx: Context, item: str) -> str:
            await ctx.step("check stock", lambda: True)
            paid = await ctx.step("charge", lambda: f"{item} paid")
            return await ctx.step("ship", lambda: f"{paid}, shipped at once")

        async with app.worker():
            await app.run(run).signal("packed")
            assert await app.run(run).result(timeout="30s") == "book paid, shipped"
            new = await app.submit(order, "lamp")
            assert await new.result(timeout="30s") == "lamp paid, shipped at once"
            assert ((await app.run(run).status()).kind, (await new.status()).kind) == ("order", "order@2")


async def test_a_worker_leaves_what_it_does_not_know(store: str) -> None:
    run = await old_run(store)
    async with FlowFabric(store) as app:

        @app.task(version=2)
        async def order(ctx: Context, item: str) -> str:
            return item

        async with app.worker():
            await app.run(run).signal("packed")
            new = await app.submit(order, "lamp")
            assert await new.result(timeout="30s") == "lamp"
            assert (await app.run(run).status()).state == "waiting"
