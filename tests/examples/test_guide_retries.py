"""What docs/guides/retries-and-timeouts.md says and shows."""

from __future__ import annotations

import asyncio

import pytest

from flowfabric import Backoff, Context, FlowFabric, Permanent, Retry, TaskExpired, TaskFailed, errors


async def test_without_retries_an_exception_ends_the_run(app: FlowFabric) -> None:
    @app.task
    async def once(ctx: Context) -> None:
        raise ConnectionError("refused")

    async with app.worker():
        run = await app.submit(once)
        with pytest.raises(TaskFailed) as failure:
            await run.result(timeout="30s")
    assert (failure.value.reason, failure.value.category) == ("ConnectionError: refused", "handler_error")
    assert 'raise ConnectionError("refused")' in failure.value.detail
    assert (await run.status()).attempt == 0


async def test_retries_are_as_many_as_were_said(app: FlowFabric) -> None:
    @app.task(retries=2, backoff=Backoff("10ms", most="1s", factor=3))
    async def fetch(ctx: Context, url: str) -> str:
        raise ConnectionError(url)

    async with app.worker():
        run = await app.options(retries=1).submit(fetch, "http://a")
        other = await app.submit(fetch, "http://b")
        for each in (run, other):
            with pytest.raises(TaskFailed):
                await each.result(timeout="30s")
        assert ((await run.status()).attempt, (await other.status()).attempt) == (1, 2)


async def test_some_failures_are_retried_and_others_are_not(app: FlowFabric) -> None:
    @app.task(retries=3, backoff="10ms", retry_on=(ConnectionError, TimeoutError, "timeout"))
    async def pay(ctx: Context, card: str) -> str:
        raise ConnectionResetError if ctx.attempt == 0 else ValueError("no such card")

    async with app.worker():
        run = await app.submit(pay, "4242")
        with pytest.raises(TaskFailed, match="no such card"):
            await run.result(timeout="30s")
    assert (await run.status()).attempt == 1


async def test_a_single_step_is_tried_again(app: FlowFabric) -> None:
    tries: list[str] = []

    def write_draft(doc: str) -> str:
        tries.append(doc)
        if len(tries) < 3:
            raise ConnectionError("away")
        return f"draft of {doc}"

    @app.task
    async def review(ctx: Context, doc: str) -> str:
        careful = ctx.options(retries=3, backoff="10ms", timeout="30s", retry_on=ConnectionError)
        draft = await careful.step("draft", write_draft, doc)
        return draft  # noqa: RET504 - the line above is the guide's

    async with app.worker():
        run = await app.submit(review, "text")
        assert await run.result(timeout="30s") == "draft of text"
    assert (len(tries), (await run.status()).attempt) == (3, 0)


async def test_a_handler_can_say_it_better(app: FlowFabric) -> None:
    class Answer:
        status = 429
        retry_after = 0.01

    @app.task(retries=1)
    async def charge(ctx: Context, card: str) -> str:
        answer = Answer()
        if not card:
            raise Permanent("no card")
        if answer.status == 429:
            raise Retry("too many requests", after=answer.retry_after)
        return "charged"

    async with app.worker():
        run = await app.submit(charge, "")
        with pytest.raises(TaskFailed, match="no card"):
            await run.result(timeout="30s")
        assert (await run.status()).attempt == 0
        run = await app.submit(charge, "4242")
        with pytest.raises(TaskFailed, match="too many requests"):
            await run.result(timeout="30s")
        assert (await run.status()).attempt == 1  # a Retry is one of the retries


async def test_arguments_that_do_not_fit_never_run_it(app: FlowFabric) -> None:
    ran = False

    @app.task
    async def add(x: int, y: int) -> int:
        nonlocal ran
        ran = True
        return x + y

    with pytest.raises(errors.InvalidInput, match="y"):
        await app.submit(add, 1)  # type: ignore[call-overload]
    stranger = FlowFabric(store=await app._core.connection.get())  # it does not know what the task takes
    async with app.worker():
        run = await stranger.submit("add", x=1, y="two")
        with pytest.raises(TaskFailed) as failure:
            await run.result(timeout="30s")
    assert (failure.value.category, ran) == ("invalid_input", False)
    assert "y" in failure.value.reason


async def test_an_attempt_that_takes_too_long_is_followed_by_another(app: FlowFabric) -> None:
    @app.task(retries=1, backoff="10ms", timeout="1s")
    async def slow(ctx: Context) -> int:
        if ctx.attempt == 0:
            await asyncio.Event().wait()
        return ctx.attempt

    async with app.worker():
        run = await app.submit(slow)
        assert await run.result(timeout="30s") == 1


async def test_a_deadline_ends_everything(app: FlowFabric) -> None:
    @app.task(retries=100, backoff="10ms", deadline="1s")
    async def hopeless(ctx: Context) -> None:
        raise ConnectionError("refused")

    async with app.worker():
        run = await app.submit(hopeless)
        with pytest.raises(TaskExpired):
            await run.result(timeout="30s")


async def test_waiting_for_a_result_changes_nothing(app: FlowFabric) -> None:
    @app.task
    async def later() -> str:
        return "done"

    run = await app.submit(later)
    with pytest.raises(TimeoutError):
        await run.result(timeout="10ms")
    async with app.worker():
        assert await run.result(timeout="30s") == "done"


async def test_an_ended_run_is_replayed(app: FlowFabric) -> None:
    fixed = False

    @app.task
    async def fragile(ctx: Context) -> str:
        await ctx.step("first", lambda: 1)
        if not fixed:
            raise ValueError("a bug")
        return "done"

    async with app.worker():
        run = await app.submit(fragile)
        with pytest.raises(TaskFailed):
            await run.result(timeout="30s")
        fixed = True
        await run.replay(keep_steps=True)
        assert await run.result(timeout="30s") == "done"
