"""Handlers that do several things at once: what runs beside a wait is neither lost nor done twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.worker import Context
from flowfabric.worker.faults import HandlerSuspended
from support.working import Place

NO_RETRY = {"retry_policy": {"max_retries": 0}}


class Slow:
    """A step that takes as long as it is told."""

    def __init__(self) -> None:
        self.ran: list[int] = []
        self.go = asyncio.Event()

    async def __call__(self, n: int) -> int:
        self.ran.append(n)
        await self.go.wait()
        return n


async def gathered(ctx: Context, slow: Slow) -> Any:
    async def steps() -> int:
        return await ctx.step("a", slow, 1) + await ctx.step("b", slow, 2)

    _, total = await asyncio.gather(ctx.sleep("10ms"), steps())
    return total


async def grouped(ctx: Context, slow: Slow) -> Any:
    async with asyncio.TaskGroup() as group:
        first = group.create_task(ctx.step("a", slow, 1))
        group.create_task(ctx.sleep("10ms"))
        second = group.create_task(ctx.step("b", slow, 2))
    return first.result() + second.result()


async def slept_twice(ctx: Context, slow: Slow) -> Any:
    await asyncio.gather(ctx.sleep("10ms"), ctx.sleep("20ms"), ctx.step("a", slow, 3))
    return 3


@pytest.mark.parametrize("shape", [gathered, grouped, slept_twice])
async def test_steps_beside_a_wait_run_once(place: Place, shape: Any) -> None:
    slow = Slow()

    async def work(ctx: Context) -> Any:
        return await shape(ctx, slow)

    async with place.runtime(work):
        id_ = await place.submit("work")
        await place.state(id_, "active")
        slow.go.set()
        assert await place.result(id_) == 3
    assert sorted(slow.ran) in ([1, 2], [3])
    assert len(await place.attempts(id_)) == 1


async def test_what_a_handler_left_behind_begins_nothing_more(place: Place) -> None:
    go = asyncio.Event()
    ran: list[str] = []
    ends: list[object] = []

    async def work(ctx: Context) -> str:
        async def later() -> None:
            await go.wait()
            await ctx.step("later", ran.append, "ran")

        behind = asyncio.create_task(later())
        try:
            await ctx.sleep("10ms")
        except BaseException:
            go.set()
            ends.extend(await asyncio.gather(behind, return_exceptions=True))
            raise
        behind.cancel()
        return "done"

    async with place.runtime(work):
        assert await place.result(await place.submit("work")) == "done"
    assert [type(end) for end in ends] == [HandlerSuspended]
    assert not ran


async def test_a_step_that_fails_beside_a_wait_fails_the_handler(place: Place) -> None:
    async def broken() -> None:
        await asyncio.sleep(0.01)
        raise ValueError("no")

    async def work(ctx: Context) -> None:
        await asyncio.gather(ctx.sleep("1h"), ctx.step("broken", broken))

    async def grouped(ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.sleep("1h"))
            group.create_task(ctx.step("broken", broken))

    async with place.runtime(work, grouped):
        for kind in ("work", "grouped"):
            id_ = await place.submit(kind, policy=NO_RETRY)
            assert (await place.ended(id_)).public_state == "failed"
            assert "suspended" not in await place.events(id_)


async def test_a_step_may_wait_inside(place: Place) -> None:
    async def work(ctx: Context) -> str:
        async def inside() -> str:
            await ctx.sleep("10ms")
            return "inside"

        return await ctx.step("outer", inside)

    async with place.runtime(work):
        assert await place.result(await place.submit("work")) == "inside"
