"""The lab and steps that have options: backoff, time limit, death in between."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric import Backoff, Context, FlowFabric, SyncContext
from flowfabric.app import Run
from flowfabric.testing import Lab

app = FlowFabric("sqlite:////nowhere/at/all.db")


class Service:
    """Something that steps call: what it does, call by call."""

    def __init__(self, *does: str) -> None:
        self.does = list(does)

    async def __call__(self) -> str:
        match self.does.pop(0):
            case "fails":
                raise ConnectionError("away")
            case "hangs":
                await asyncio.Event().wait()
        return "answer"


service = Service()


async def called() -> str:
    return await service()


@app.task
async def careful(ctx: Context) -> str:
    step = ctx.options(retries=3, backoff=Backoff("1m", "1h", jitter=False), timeout="30s")
    return await step.step("call", called)


@app.task
def careful_in_a_thread(ctx: SyncContext) -> str:
    return ctx.options(retries=3, backoff="1m").step("call", called)


@pytest.mark.parametrize("task", [careful, careful_in_a_thread])
async def test_a_backoff_of_a_step_passes_when_the_clock_moves(task: Any) -> None:
    service.does = ["fails", "fails", "answers"]
    async with Lab(app) as lab:
        run: Run[str] = await lab.submit(task)
        await lab.settle()
        assert service.does == ["fails", "answers"]
        await lab.clock.advance("59s")
        assert service.does == ["fails", "answers"]
        await lab.clock.advance("1s")
        assert service.does == ["answers"]
        await lab.clock.advance("2m")
        assert await lab.result(run) == "answer"
        assert (await run.status()).attempt == 0


async def test_all_backoffs_of_a_step_pass_in_one_journey() -> None:
    service.does = ["fails", "fails", "fails", "answers"]
    async with Lab(app) as lab:
        run = await lab.submit(careful)
        await lab.clock.advance("1h")
        await lab.assert_state(run, "completed")
        assert (await run.status()).attempt == 0


async def test_a_timeout_of_a_step_comes_when_the_clock_moves() -> None:
    service.does = ["hangs", "hangs", "answers"]
    async with Lab(app) as lab:
        run = await lab.submit(careful)
        await lab.begun(run)
        await lab.clock.advance("29s")
        assert service.does == ["hangs", "answers"]
        await lab.clock.advance("1h")
        assert await lab.result(run) == "answer"


async def test_a_worker_that_dies_in_a_backoff_leaves_the_step_to_another() -> None:
    service.does = ["fails", "answers"]
    async with Lab(app) as lab:
        run = await lab.submit(careful)
        await lab.settle()
        lab.crash()
        assert await lab.result(run) == "answer"
        assert not service.does
