"""The lab itself: an app under test, time that jumps, workers that die."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from flowfabric import Backoff, Context, FlowFabric, Retry, SyncContext, TaskFailed, WaitTimeout
from flowfabric.app import Run
from flowfabric.model.errors import InvalidInput
from flowfabric.testing import Lab, StillRunning
from support.valkey import empty_server

app = FlowFabric("sqlite:////nowhere/at/all.db")
calls: list[str] = []


def noted(name: str) -> str:
    calls.append(name)
    return name


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


@app.task
async def add(first: int, second: int) -> int:
    return first + second


@app.task
async def three(ctx: Context) -> list[str]:
    return [await ctx.step(name, noted, name) for name in ("one", "two", "three")]


@app.task
def three_in_a_thread(ctx: SyncContext) -> list[str]:
    try:
        return [ctx.step(name, noted, name) for name in ("one", "two", "three")]
    finally:
        calls.append("finally")


@app.task(retries=2, backoff=Backoff("1h", "1d", jitter=False))
async def flaky(ctx: Context) -> int:
    calls.append(f"attempt {ctx.attempt}")
    if ctx.attempt < 2:
        raise Retry("not yet")
    return ctx.attempt


@app.task
async def ask(ctx: Context, limit: str) -> str:
    try:
        answer = await ctx.wait_for_signal("approve", "reject", timeout=limit)
    except WaitTimeout:
        return "nobody"
    return f"{answer.name} {answer.source} {answer.payload}"


@app.task
async def nap(ctx: Context) -> str:
    await ctx.step("before", noted, "before")
    await ctx.sleep("7d")
    return await ctx.step("after", noted, "after")


@app.task
async def parent(ctx: Context) -> str:
    child = await ctx.submit(add, 1, 2)
    await ctx.emit("token", "Hel")
    await ctx.emit("token", "lo")
    await ctx.emit("usage", {"tokens": 2})
    return str(child.id)


# Through the real code.


async def test_a_task_runs_and_its_result_is_there() -> None:
    async with Lab(app) as lab:
        run = await lab.submit(lab.call(add, 1, 2))
        await lab.settle()
        assert await run.result() == 3


async def test_code_under_test_may_await_a_result_itself() -> None:
    async with Lab(app):
        run = await app.submit(add, 3, second=4)
        assert await run.result() == 7


async def test_submitters_that_were_made_earlier_come_along() -> None:
    later = app.options(delay="1h")
    async with Lab(app) as lab:
        run = await later.submit(add, 1, 2)
        await lab.assert_state(run, "delayed")
        await lab.clock.advance("1h")
        assert await lab.result(run) == 3


async def test_many_runs_share_a_worker_that_has_less_room() -> None:
    async with Lab(app, concurrency=2) as lab:
        runs = await lab.submit_many(lab.call(add, number, 1) for number in range(20))
        assert [await lab.result(run) for run in runs] == list(range(1, 21))


async def test_children_run_too() -> None:
    async with Lab(app) as lab:
        run = await lab.submit(parent)
        child: Run[int] = app.run(await lab.result(run), add)
        assert await lab.result(child) == 3


async def test_afterwards_the_app_has_its_own_store_again() -> None:
    before = app._core.connection.url
    async with Lab(app):
        assert not app._core.connection.url
    assert app._core.connection.url == before


async def test_an_app_that_is_open_stays_open() -> None:
    open_app = FlowFabric(":memory:")
    open_app.task(noted)
    async with open_app:
        outside = await open_app.submit(noted, "x")
        async with Lab(open_app) as lab:
            assert await lab.result(await lab.submit(noted, "y")) == "y"
        assert (await outside.status()).state == "waiting"


# Time.


async def test_retries_come_when_their_time_has_come() -> None:
    async with Lab(app) as lab:
        run = await lab.submit(flaky)
        await lab.assert_state(run, "delayed")
        assert calls == ["attempt 0"]
        await lab.clock.advance("59m")
        assert calls == ["attempt 0"]
        await lab.clock.advance("1m")
        assert calls == ["attempt 0", "attempt 1"]
        await lab.clock.advance("2h")
        assert await lab.result(run) == 2


async def test_one_jump_stops_at_everything_on_its_way() -> None:
    async with Lab(app) as lab:
        begun = lab.clock.now
        run = await lab.submit(flaky)
        await lab.clock.advance("1d")
        assert await lab.result(run) == 2
        status = await run.status()
        assert status.ended_at - status.created_at == 3 * 3_600_000
        assert lab.clock.now - begun == timedelta(days=1)


async def test_a_sleep_is_over_in_no_time() -> None:
    async with Lab(app) as lab:
        run = await lab.submit(nap)
        await lab.assert_steps(run, ["before"])
        await lab.clock.advance("7d")
        await lab.assert_steps(run, ["before", "after"])
        assert calls == ["before", "after"]


async def test_what_is_kept_no_longer_is_gone() -> None:
    async with Lab(app) as lab:
        run = await app.options(retention="1d").submit(add, 1, 2)
        await lab.assert_state(run, "completed")
        await lab.clock.advance("2d")
        await lab.assert_state(run, "gone")


async def test_time_passes_over_a_handler_that_works() -> None:
    going, done = asyncio.Event(), asyncio.Event()
    local = FlowFabric(":memory:")

    @local.task
    async def long() -> str:
        going.set()
        await done.wait()
        return "done"

    async with Lab(local) as lab:
        run = await lab.submit(long)
        await going.wait()
        await lab.clock.advance("1h")
        assert (await run.status()).attempt == 0
        done.set()
        assert await lab.result(run) == "done"
        assert (await run.status()).attempt == 0


async def test_an_attempt_that_takes_too_long_is_stopped() -> None:
    going = asyncio.Event()
    local = FlowFabric(":memory:")
    ends: list[str] = []

    @local.task(timeout="2m")
    async def stuck() -> None:
        going.set()
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("stopped")

    async with Lab(local) as lab:
        run = await lab.submit(stuck)
        await going.wait()
        await lab.clock.advance("119s")
        assert not ends
        await lab.clock.advance("1s")
        await lab.settle()
        assert ends == ["stopped"]
        with pytest.raises(TaskFailed, match="attempt_timeout"):
            await run.result()


async def test_a_run_that_is_cancelled_stops_at_once() -> None:
    going = asyncio.Event()
    local = FlowFabric(":memory:")

    @local.task
    async def stuck() -> None:
        going.set()
        await asyncio.Event().wait()

    async with Lab(local) as lab:
        run = await lab.submit(stuck)
        await going.wait()
        await run.cancel("enough")
        await lab.assert_state(run, "cancelled")


async def test_a_handler_that_never_returns_is_named() -> None:
    local = FlowFabric(":memory:")

    @local.task
    async def stuck() -> None:
        await asyncio.Event().wait()

    async with Lab(local, patience="50ms") as lab:
        run = await lab.submit(stuck)
        with pytest.raises(StillRunning, match=f"stuck of {run.id}"):
            await lab.settle()


# People.


async def test_an_approval_in_one_line() -> None:
    async with Lab(app) as lab:
        run = await lab.submit(ask, "1d")
        await lab.approve(run, {"ok": True}, by="ada")
        assert await lab.result(run) == "approve ada {'ok': True}"


async def test_a_rejection_in_one_line() -> None:
    async with Lab(app) as lab:
        run = await lab.submit(ask, "1d")
        await lab.reject(run, by="ada")
        assert await lab.result(run) == "reject ada None"


async def test_any_signal_in_one_line() -> None:
    async with Lab(app) as lab:
        run = await lab.submit(ask, "1d")
        await lab.signal(run, "approve", 7)
        assert (await lab.result(run)).endswith(" 7")


async def test_nobody_answers_in_one_line() -> None:
    async with Lab(app) as lab:
        run = await lab.submit(ask, "3d")
        begun = lab.clock.now
        await lab.expire(run)
        assert await lab.result(run) == "nobody"
        assert lab.clock.now - begun == timedelta(days=3)


async def test_what_waits_for_nothing_cannot_expire() -> None:
    async with Lab(app) as lab:
        run = await lab.submit(add, 1, 2)
        with pytest.raises(AssertionError, match="add waits for nothing that could expire"):
            await lab.expire(run)


# Accidents.


@pytest.mark.parametrize("task", [three, three_in_a_thread])
@pytest.mark.parametrize(
    ("moment", "seen"),
    [
        ("crash_before", ["one", "two", "three"]),
        ("crash_during", ["one", "two", "two", "three"]),
        ("crash_after", ["one", "two", "three"]),
    ],
)
async def test_another_worker_goes_on_where_one_died(task: Any, moment: str, seen: list[str]) -> None:
    async with Lab(app) as lab:
        getattr(lab, moment)("two")
        run = await lab.submit(task)
        assert await lab.result(run) == ["one", "two", "three"]
        assert [call for call in calls if call != "finally"] == seen
        assert calls.count("finally") == (task is three_in_a_thread), "the dead do not clean up"
        assert (await run.status()).attempt == 1
        assert "lease_expired" in [event.event for event in await run.history()]


@pytest.mark.parametrize("store", ["", "sqlite", "valkey"])
async def test_a_worker_can_die_again_and_again(store: str, tmp_path: Path) -> None:
    async with empty_server() if store == "valkey" else nullcontext() as server:
        await _dies_twice(server.url if server else str(tmp_path / "work.db") if store else "")


async def _dies_twice(url: str) -> None:
    async with Lab(app, url) as lab:
        lab.crash_after("one")
        lab.crash_after("two")
        run = await lab.submit(three)
        assert await lab.result(run) == ["one", "two", "three"]
        assert calls == ["one", "two", "three"]
        assert (await run.status()).attempt == 2


async def test_the_lease_of_the_dead_runs_out_before_anybody_goes_on() -> None:
    async with Lab(app, lease_ttl="45s") as lab:
        begun = lab.clock.now
        lab.crash_after("one")
        await lab.result(await lab.submit(three))
        assert lab.clock.now - begun == timedelta(seconds=45)


async def test_a_crash_of_one_run_leaves_its_neighbours_work_to_others() -> None:
    async with Lab(app) as lab:
        lab.crash_after("two")
        runs = [await lab.submit(three) for _ in range(3)]
        for run in runs:
            assert await lab.result(run) == ["one", "two", "three"]


async def test_what_stood_still_is_cancelled_when_the_lab_ends() -> None:
    local = FlowFabric(":memory:")
    ends: list[str] = []

    @local.task
    async def careful(ctx: Context) -> None:
        try:
            await ctx.step("work", noted, "work")
            await ctx.step("more", noted, "more")
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    async with Lab(local) as lab:
        lab.crash_after("work")
        await lab.result(await lab.submit(careful))
        assert not ends
    assert ends == ["cancelled"]


async def test_a_crash_that_never_happens_fails_the_test() -> None:
    lab = Lab(app)
    await lab.__aenter__()
    lab.crash_after("twoo")
    await lab.result(await lab.submit(three))
    with pytest.raises(AssertionError, match=r"crash_after\('twoo'\) never happened"):
        await lab.__aexit__(None, None, None)


async def test_a_crash_that_must_happen_in_a_block() -> None:
    async with Lab(app) as lab:
        with lab.crash_after("two") as crash:
            run = await lab.submit(three)
            await lab.settle()
        assert crash.happened
        await lab.assert_state(run, "completed")
        with pytest.raises(ZeroDivisionError), lab.crash_during("two"):
            1 / 0  # noqa: B018 - what goes wrong in the block is not hidden
        await lab.result(await lab.submit(three))
        late = lab.crash_before("two")
        with (
            pytest.raises(AssertionError, match=r"crash_before\('two'\) has not happened in its block"),
            late,
        ):
            pass
        await lab.result(await lab.submit(three))


async def test_every_worker_dies_at_once() -> None:
    going = asyncio.Event()
    local = FlowFabric(":memory:")

    @local.task
    async def stuck_once(ctx: Context) -> int:
        if ctx.attempt == 0:
            going.set()
            await asyncio.Event().wait()
        return ctx.attempt

    async with Lab(local) as lab:
        run = await lab.submit(stuck_once)
        await going.wait()
        lab.crash()
        assert await lab.result(run) == 1


# Assertions.


async def test_wrong_steps_are_told() -> None:
    async with Lab(app) as lab:
        run = await lab.submit(three)
        with pytest.raises(AssertionError) as caught:
            await lab.assert_steps(run, ["one", "three"])
    text = str(caught.value)
    assert "three has other steps, from number 2 on" in text
    assert "wanted: ['one', 'three']\n  found:  ['one', 'two', 'three']" in text
    assert "2030-01-01 00:00:00.000 created" in text


async def test_a_wrong_state_is_told_with_its_reason() -> None:
    local = FlowFabric(":memory:")

    @local.task(retries=0)
    async def broken() -> None:
        raise ValueError("no such customer")

    async with Lab(local) as lab:
        run = await lab.submit(broken)
        with pytest.raises(AssertionError) as caught:
            await lab.assert_state(run, "completed")
        await lab.assert_state(run, "failed")
    assert "broken is failed, not completed" in str(caught.value)
    assert "reason: ValueError: no such customer (handler_error)" in str(caught.value)


async def test_frames_are_compared_as_they_were_emitted() -> None:
    async with Lab(app) as lab:
        run = await lab.submit(parent)
        await lab.assert_frames(run, ["Hel", "lo", {"tokens": 2}])
        await lab.assert_frames(run, ["Hel", "lo"], "token")
        await lab.assert_steps(run, ["submit:add"], waits=True)
        await lab.assert_steps(run, [])
        with pytest.raises(AssertionError, match="has other frames, from number 2 on"):
            await lab.assert_frames(run, ["Hel"], "token")


async def test_a_result_that_is_not_there_is_explained() -> None:
    async with Lab(app) as lab:
        run = await lab.submit(ask, "1d")
        with pytest.raises(AssertionError, match="ask has no result yet"):
            await lab.result(run)


async def test_a_server_has_a_clock_of_its_own() -> None:
    with pytest.raises(InvalidInput, match="a lab needs the store itself"):
        Lab(app, "http://127.0.0.1:9090")
