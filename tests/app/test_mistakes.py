"""What people get wrong at first, and what they are told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from flowfabric import Context, FlowFabric, SyncContext, TaskFailed
from flowfabric.testing import Lab


async def fetch(url: str) -> str:
    return url


async def result_of(function: Callable[..., Any], *arguments: Any) -> Any:
    app = FlowFabric()
    app.task(function)
    async with Lab(app) as lab:
        run = await app.submit(function, *arguments)
        return await lab.result(run)


async def without_type(ctx, url: str) -> str:  # type: ignore[no-untyped-def]
    return await ctx.step("fetch", fetch, url)  # type: ignore[no-any-return]


def thread_without_type(context, url: str) -> str:  # type: ignore[no-untyped-def]
    return context.step("fetch", fetch, url)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("function", "says"),
    [(without_type, "ctx: Context"), (thread_without_type, "context: SyncContext")],
    ids=["async", "thread"],
)
async def test_a_context_without_a_type(function: Callable[..., Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        await result_of(function, "http://a")


async def an_argument_of_that_name(context: dict[str, int]) -> int:
    return context["x"]


async def test_an_argument_may_have_that_name() -> None:
    assert await result_of(an_argument_of_that_name, {"x": 3}) == 3


async def called_already(ctx: Context, url: str) -> str:
    return await ctx.step("fetch", fetch(url))  # type: ignore[call-overload,no-any-return]


def thread_called_already(ctx: SyncContext, url: str) -> str:
    return ctx.step("fetch", fetch(url))  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("function", [called_already, thread_called_already], ids=["async", "thread"])
async def test_a_step_of_what_a_function_returned(function: Callable[..., Any]) -> None:
    with pytest.raises(TaskFailed) as failure:
        await asyncio.wait_for(result_of(function, "http://a"), 30)
    assert "step 'fetch' needs a function and its arguments" in failure.value.reason
    assert "coroutine" in failure.value.reason
