"""What people get wrong at first, and what they are told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowfabric import Backoff, Context, FlowFabric, SyncContext, TaskFailed
from flowfabric.app import UnknownTask
from flowfabric.errors import InvalidInput
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


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"concurrency": -1}, "concurrency: -1 is no count"),
        ({"concurrency": "4"}, "concurrency: '4' is no count"),
        ({"prefetch": -5}, "prefetch: -5 is no count"),
        ({"lease_ttl": 0}, "lease_ttl: 0 is out of range: from 1s to 1h"),
        ({"lease_ttl": "2h"}, "lease_ttl: '2h' is out of range"),
        ({"lanes": "mail"}, r"lanes: give a list, such as \['mail'\]"),
        ({"lanes": [""]}, "lanes: must not be empty"),
        ({"capabilities": "gpu"}, r"capabilities: give a list, such as \['gpu'\]"),
        ({"capabilities": ["a,b"]}, r"capabilities: names without spaces and commas.*comma_in_token"),
        ({"worker_id": "x" * 500}, "worker_id: is 500 bytes long"),
        ({"grace": -1}, "grace: -1 is out of range"),
    ],
)
def test_a_worker_that_would_wait_in_vain_is_refused_at_once(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        FlowFabric().worker(**settings)


async def test_a_worker_without_concurrency_does_one_thing_at_a_time(tmp_path: Path) -> None:
    app = FlowFabric(str(tmp_path / "work.db"))
    app.task(fetch)
    async with app.worker(concurrency=0) as worker:
        assert worker.settings.concurrency == 1
        assert await (await app.submit(fetch, "http://a")).result(timeout="30s") == "http://a"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"retries": -1}, "retries: -1 is no count"),
        ({"retries": 1.5}, "retries: 1.5 is no count"),
        ({"retries": 1, "backoff": Backoff(factor=-1)}, "backoff.factor: -1 is no factor"),
        ({"retries": 1, "backoff": Backoff("x")}, "backoff.first: 'x' is no duration"),
        ({"capabilities": "gpu"}, r"capabilities: give a list, such as \['gpu'\]"),
        ({"capabilities": [""]}, "capabilities: names without spaces"),
        (
            {"priority": "high"},
            "priority: must be a whole number from 0 to 9000, the higher the earlier; not 'high'",
        ),
        (
            {"priority": 99_999},
            "priority: must be a whole number from 0 to 9000, the higher the earlier; not 99999",
        ),
        ({"priority": -1}, "priority: must be a whole number from 0 to 9000"),
        ({"lane": "x" * 300}, "lane: is 300 bytes long"),
        ({"timeout": "1 hour"}, "timeout: '1 hour' is no duration"),
    ],
)
def test_options_that_no_store_takes_are_refused_where_they_are_written(
    options: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidInput, match=says):
        FlowFabric().task(**options)(fetch)


@pytest.mark.parametrize("options", [{"priority": 99_999}, {"priority": -1}, {"lane": "x" * 300}])
def test_options_of_submissions_are_refused_where_they_are_written(options: dict[str, Any]) -> None:
    app = FlowFabric()
    for face in (app, app.sync):
        with pytest.raises(InvalidInput, match=next(iter(options))):
            face.options(**options)


async def test_a_task_that_was_called_instead_of_passed_is_recognised() -> None:
    app = FlowFabric()
    app.task(fetch)

    @app.task
    def add(a: int, b: int) -> list[int]:
        return [a + b]

    async def submitted(submit: Callable[..., Any], task: Any) -> None:
        await submit(task)

    for submit in (app.submit, app.options(priority=1).submit, app.call):
        with pytest.raises(
            UnknownTask, match=r"fetch was called, and is to be passed: write submit\(fetch, …\)"
        ):
            await submitted(submit, fetch("http://a"))
        with pytest.raises(UnknownTask, match=r"\[3\] is of type list, and no task; give the task itself"):
            await submitted(submit, add(1, 2))


async def test_what_is_no_call_is_not_submitted_with_others() -> None:
    app = FlowFabric()
    app.task(fetch)
    with pytest.raises(
        TypeError, match=r"calls\[1\] is a str: submit_many takes what app.call\(task, …\) returns"
    ):
        await app.submit_many([app.call(fetch, "http://a"), "http://b"])  # type: ignore[arg-type]


def test_unknown_options_name_the_nearest() -> None:
    app = FlowFabric()
    wrong: dict[str, Any] = {"retrys": 3}
    listed = r"\(flowfabric.app.Options lists them all\)"
    for options in (app.options, app.sync.options, app.task):
        with pytest.raises(
            TypeError, match=f"no option retrys: did you mean retries or retry_on\\? {listed}"
        ):
            options(**wrong)
    retry: dict[str, Any] = {"retry": 3}
    with pytest.raises(TypeError, match=r"no option retry: did you mean .*retries"):
        app.task(**retry)
    colour: dict[str, Any] = {"colour": "red"}
    with pytest.raises(TypeError, match=f"^there is no option colour {listed}"):
        app.options(**colour)


def test_options_of_submissions_are_none_of_tasks() -> None:
    delay: dict[str, Any] = {"delay": "1d"}
    with pytest.raises(TypeError, match=r"of a submission: app.options"):
        FlowFabric().task(**delay)
