"""Steps with options: tries within one attempt, and children with options of their own."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Any

import pytest

from flowfabric import Backoff, Context, FlowFabric, Permanent, Retry, StepTimeout, SyncContext
from flowfabric.model.errors import InvalidInput
from flowfabric.worker.handlers import Executor
from support.working import Place, handler

NO_RETRY = {"retry_policy": {"max_retries": 0}}
AT_ONCE = {"retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 0}}}


class Flaky:
    """A function that fails some times before it returns."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    async def __call__(self, value: str = "done") -> str:
        return self.plain(value)

    def plain(self, value: str = "done") -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return value

    async def on_loop(self, value: str = "done") -> str:
        return self.plain(value)


def tries(caplog: pytest.LogCaptureFixture, kind: str = "work") -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == f"flowfabric.task.{kind}"]


@pytest.mark.parametrize("executor", ["loop", "thread"])
async def test_a_step_is_tried_again_within_its_attempt(
    place: Place, caplog: pytest.LogCaptureFixture, executor: Executor
) -> None:
    flaky = Flaky(ConnectionError("one"), ConnectionError("two"))

    async def on_loop(ctx: Context) -> str:
        return await ctx.options(retries=3, backoff="1ms").step("fetch", flaky.on_loop, "got it")

    def in_thread(ctx: SyncContext) -> str:
        return ctx.options(retries=3, backoff="1ms").step("fetch", flaky.plain, "got it")

    async with place.runtime(handler(on_loop if executor == "loop" else in_thread, kind="work")):
        id_ = await place.submit("work", policy=NO_RETRY)
        assert await place.result(id_) == "got it"
    assert (flaky.calls, len(await place.attempts(id_)), await place.steps(id_)) == (3, 1, ["fetch"])
    assert tries(caplog) == [
        "step 'fetch' failed (try 1 of 4): ConnectionError: one; the next try follows in 0.001 s",
        "step 'fetch' failed (try 2 of 4): ConnectionError: two; the next try follows in 0.001 s",
    ]
    record = next(each for each in caplog.records if "try 1 of 4" in each.getMessage())
    assert record.levelno == logging.WARNING
    assert record.exc_info
    assert record.execution_id == id_  # type: ignore[attr-defined] # the logger of the context adds it


async def test_the_last_error_is_raised_and_then_the_task_is_retried(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    flaky = Flaky(*(ValueError(str(number)) for number in range(5)))

    async def work(ctx: Context) -> str:
        return await ctx.options(retries=1, backoff=0).step("fetch", flaky)

    async with place.runtime(work):
        id_ = await place.submit("work", policy=AT_ONCE)
        run = await place.ended(id_)
    assert (run.public_state, run.failure_reason) == ("failed", "ValueError: 3")
    assert (flaky.calls, len(await place.attempts(id_))) == (4, 2)
    assert tries(caplog)[1] == "step 'fetch' failed (try 2 of 2): ValueError: 1; no try follows"


async def test_what_a_handler_catches_ends_nothing(place: Place) -> None:
    flaky = Flaky(ConnectionError("away"), ConnectionError("away"))

    async def work(ctx: Context) -> str:
        try:
            return await ctx.options(retries=1, backoff=0).step("first", flaky)
        except ConnectionError:
            return await ctx.step("second", flaky, "instead")

    async with place.runtime(work):
        id_ = await place.submit("work")
        assert await place.result(id_) == "instead"
    assert await place.steps(id_) == ["second"]


@pytest.mark.parametrize(
    ("retry_on", "error", "calls"),
    [
        (ConnectionError, ConnectionResetError("again"), 2),
        ((ConnectionError, TimeoutError), TimeoutError("again"), 2),
        (ConnectionError, ValueError("no"), 1),
        ("transient", ValueError("again"), 2),
        (ConnectionError, Retry("again", after=0), 2),
        (ConnectionError, ExceptionGroup("two", [ConnectionError(), BrokenPipeError()]), 2),
        (ConnectionError, ExceptionGroup("two", [ConnectionError(), ValueError()]), 1),
        (None, Permanent("never"), 1),
    ],
)
async def test_retry_on_says_which_failures_are_tried_again(
    place: Place, retry_on: Any, error: Exception, calls: int
) -> None:
    flaky = Flaky(error)

    async def work(ctx: Context) -> str:
        return await ctx.options(retries=2, backoff=0, retry_on=retry_on).step("fetch", flaky)

    async with place.runtime(work):
        run = await place.ended(await place.submit("work", policy=NO_RETRY))
    assert (flaky.calls, run.public_state) == (calls, "completed" if calls == 2 else "failed")


async def test_a_timeout_cancels_the_function_and_is_retried(place: Place) -> None:
    cleaned: list[int] = []

    async def slow() -> str:
        if len(cleaned) == 2:
            return "in time"
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(1)
        raise AssertionError("unreachable")

    async def work(ctx: Context) -> str:
        return await ctx.options(retries=2, backoff=0, timeout="20ms", retry_on="timeout").step("slow", slow)

    async with place.runtime(work):
        assert await place.result(await place.submit("work", policy=NO_RETRY)) == "in time"
    assert len(cleaned) == 2


async def test_the_last_timeout_is_raised_as_one(place: Place) -> None:
    async def work(ctx: Context) -> str:
        with pytest.raises(StepTimeout, match=r"step 'slow' took longer than 0\.02 s"):
            await ctx.options(timeout="20ms").step("slow", asyncio.Event().wait)
        return "caught"

    async def uncaught(ctx: Context) -> None:
        await ctx.options(timeout="20ms").step("slow", asyncio.Event().wait)

    async with place.runtime(work, uncaught):
        assert await place.result(await place.submit("work")) == "caught"
        run = await place.ended(await place.submit("uncaught", policy=NO_RETRY))
    assert run.failure_category == "timeout"


async def test_a_timeout_of_its_own_is_no_timeout_of_the_step(place: Place) -> None:
    async def own() -> None:
        raise TimeoutError("of a socket")

    async def work(ctx: Context) -> None:
        await ctx.options(timeout="1m").step("own", own)

    async with place.runtime(work):
        run = await place.ended(await place.submit("work", policy=NO_RETRY))
    assert (run.failure_category, run.failure_reason) == ("handler_error", "TimeoutError: of a socket")


async def test_a_timeout_interrupts_a_thread(place: Place) -> None:
    interrupted = threading.Event()

    def spin() -> None:
        try:
            while True:
                time.sleep(0.001)
        finally:
            interrupted.set()

    def work(ctx: SyncContext) -> str:
        try:
            ctx.options(timeout="50ms").step("spin", spin)
        except StepTimeout:
            assert interrupted.wait(10)
            return "interrupted"
        raise AssertionError("it cannot end")

    async with place.runtime(work):
        assert await place.result(await place.submit("work", policy=NO_RETRY)) == "interrupted"


async def test_a_step_in_a_thread_ends_with_its_handler(place: Place) -> None:
    begun, interrupted = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def spin() -> None:
        loop.call_soon_threadsafe(begun.set)
        try:
            while True:
                time.sleep(0.001)
        finally:
            interrupted.set()

    async def work(ctx: Context) -> None:
        await ctx.step("spin", spin)

    async with place.runtime(work, grace=0):
        id_ = await place.submit("work")
        await asyncio.wait_for(begun.wait(), 10)
    assert await asyncio.to_thread(interrupted.wait, 10)
    assert (await place.run(id_)).lease_end == "released"


async def test_a_stop_ends_a_backoff(place: Place) -> None:
    failed = asyncio.Event()

    async def fail() -> None:
        failed.set()
        raise ConnectionError("away")

    async def work(ctx: Context) -> None:
        await ctx.options(retries=1, backoff="1h").step("fetch", fail)

    async with place.runtime(work, grace=0):
        id_ = await place.submit("work", policy=NO_RETRY)
        await asyncio.wait_for(failed.wait(), 10)
    assert (await place.run(id_)).lease_end == "released"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"backoff": "1s"}, "retries"),
        ({"retries": -1}, "retries"),
        ({"retries": 1, "backoff": "soon"}, "backoff"),
        ({"retries": 1, "retry_on": (3,)}, "retry_on"),
        ({"timeout": "never"}, "timeout"),
        ({"retries": 1, "lane": "slow"}, "lane"),
        ({"delay": "1s"}, "delay"),
        ({"key": "k"}, "key"),
    ],
)
async def test_what_a_step_cannot_take_is_refused(place: Place, options: Any, field: str) -> None:
    refused: list[InvalidInput] = []

    async def work(ctx: Context) -> None:
        try:
            await ctx.options(**options).step("fetch", Flaky())
        except InvalidInput as error:
            refused.append(error)

    async with place.runtime(work):
        await place.result(await place.submit("work"))
    assert [error.field for error in refused] == [field]


async def test_names_and_stored_results_are_those_of_plain_steps(place: Place) -> None:
    calls: list[str] = []

    def note(value: str) -> str:
        calls.append(value)
        return value

    async def work(ctx: Context) -> list[str]:
        careful = ctx.options(retries=1)
        found = [await careful.step("note", note, "a"), await ctx.step("note", note, "b")]

        @careful.step("noted")
        async def noted(value: str) -> str:
            return note(value)

        found.append(await noted("c"))
        if ctx.attempt == 0:
            raise Retry("again", after=0)
        return found

    async with place.runtime(work):
        id_ = await place.submit("work", policy=AT_ONCE)
        assert await place.result(id_) == ["a", "b", "c"]
    assert (calls, await place.steps(id_)) == (["a", "b", "c"], ["note", "note#2", "noted"])


# In a process of its own: functions are found by their names.

COUNTS: dict[str, int] = {}


def fails_twice(value: str) -> str:
    COUNTS[value] = COUNTS.get(value, 0) + 1
    if COUNTS[value] < 3:
        raise ConnectionError(f"try {COUNTS[value]}")
    return f"{value} {COUNTS[value]}"


async def fails_twice_on_loop(value: str) -> str:
    return fails_twice(value)


def in_process(ctx: SyncContext) -> list[str]:
    careful = ctx.options(retries=2, backoff="1ms")
    found = [careful.step("plain", fails_twice, "a"), careful.step("async", fails_twice_on_loop, "b")]
    try:
        ctx.options(timeout="20ms").step("slow", time.sleep, 0.1)
    except StepTimeout:
        found.append("timeout")
    return found


async def on_a_loop_in_process(ctx: SyncContext) -> str:
    return ctx.options(retries=2, backoff="1ms").step("async", fails_twice_on_loop, "c")


async def test_steps_with_options_in_a_process(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    async with place.runtime(
        handler(in_process, "process"), handler(on_a_loop_in_process, "process"), concurrency=1
    ):
        id_ = await place.submit("in_process", policy=NO_RETRY)
        assert await place.result(id_) == ["a 3", "b 3", "timeout"]
        other = await place.submit("on_a_loop_in_process", policy=NO_RETRY)
        assert await place.result(other) == "c 3"
    assert await place.steps(id_) == ["plain", "async"]
    assert tries(caplog, "in_process")[0].startswith(
        "step 'plain' failed (try 1 of 3): ConnectionError: try 1"
    )


# Children.


async def test_children_with_options(place: Place) -> None:
    app = FlowFabric(store=place.store)

    @app.task
    async def pack(item: str) -> str:
        return item

    @app.task
    async def order(ctx: Context) -> list[str]:
        child = await ctx.options(lane="slow", tags={"team": "a"}, retries=4).submit(pack, "lamp")
        own_key = await ctx.options(key="mine").submit("pack", item="chair")
        return [child.id, own_key.id]

    @app.task
    def order_in_thread(ctx: SyncContext) -> str:
        return ctx.options(lane="slow", backoff=Backoff("1s"), retries=1).submit(pack, "lamp").id

    async with app.worker(lanes=["default"], engine=False):
        child, own_key = await (await app.submit(order)).result("20s")
        again = await app.options(key="mine").submit(pack, "chair")
        assert again.id == own_key
        status = await app.run(child).status()
        assert (status.lane, status.tags) == ("slow", {"team": "a"})
        other = await (await app.submit(order_in_thread)).result("20s")
        assert (await app.run(other).status()).lane == "slow"


async def test_a_prepared_call_takes_no_options(place: Place) -> None:
    app = FlowFabric(store=place.store)

    @app.task
    async def pack(item: str) -> str:
        return item

    @app.task
    async def order(ctx: Context) -> str:
        with pytest.raises(TypeError, match="has its arguments and options already"):
            await ctx.options(lane="slow").submit(app.call(pack, "lamp"))
        return "refused"

    async with app.worker(engine=False):
        assert await (await app.submit(order)).result("20s") == "refused"
