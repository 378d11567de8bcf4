"""What a handler may do: steps, sleeping, waiting, streams."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from flowfabric.model.errors import InvalidInput
from flowfabric.model.operations.read import GetExecution
from flowfabric.model.operations.signal import ApproveSignal, DeliverSignal
from flowfabric.model.operations.suspend_waitpoint import ListWaitpoints, ReadToken
from flowfabric.storage.minting import new_uuid
from flowfabric.worker import Retry, StepMismatch, SyncContext, WaitTimeout
from support.working import Context, Place, place_on

AT_ONCE = {"retry_policy": {"max_retries": 3, "backoff": {"type": "fixed", "delay_ms": 0}}}
NO_RETRY = {"retry_policy": {"max_retries": 0}}


async def approve(place: Place, execution_id: str, name: str, payload: bytes = b"", source: str = "") -> None:
    """Send a signal to whatever it waits on."""
    page = await place.store.read(ListWaitpoints(execution_id=execution_id))
    (waitpoint,) = page.waitpoints
    token = await place.store.read(ReadToken(execution_id=execution_id, waitpoint_id=waitpoint.waitpoint_id))
    await place.store.apply(
        DeliverSignal(
            execution_id=execution_id,
            waitpoint_id=waitpoint.waitpoint_id,
            signal_id=new_uuid(),
            signal_name=name,
            payload=payload,
            source_identity=source,
            source_type="user",
            waitpoint_token=token or "",
        )
    )


async def test_a_step_runs_once_over_all_attempts(place: Place) -> None:
    calls: list[str] = []

    def sync_step(text: str) -> str:
        calls.append("sync")
        return text.upper()

    async def async_step() -> tuple[int, ...]:
        calls.append("async")
        return (1, 2)

    async def work(ctx: Context) -> list[Any]:
        first = await ctx.step("one", sync_step, "a")
        second = await ctx.step("two", async_step)

        @ctx.step("three")
        async def third(n: int) -> int:
            calls.append("decorated")
            return n + 1

        numbers = [await third(1), await third(2)]
        if ctx.attempt == 0:
            raise Retry
        return [first, second, numbers, ctx.attempt]

    async with place.runtime(work):
        id_ = await place.submit("work", policy=AT_ONCE)
        assert await place.result(id_) == ["A", [1, 2], [2, 3], 1]
    assert calls == ["sync", "async", "decorated", "decorated"]
    assert await place.steps(id_) == ["one", "two", "three", "three#2"]


async def test_a_failed_step_stores_nothing_and_a_caught_one_may_change_what_follows(place: Place) -> None:
    calls: list[str] = []

    async def flaky() -> str:
        calls.append("flaky")
        if len(calls) == 1:
            raise OSError("down")
        return "up"

    async def fallback() -> str:
        return "fallback"

    async def last() -> str:
        return "last"

    async def work(ctx: Context) -> list[str]:
        try:
            value = await ctx.step("flaky", flaky)
        except OSError:
            value = await ctx.step("fallback", fallback)
        if ctx.attempt == 0:
            raise Retry
        return [value, await ctx.step("last", last)]

    async with place.runtime(work):
        assert await place.result(await place.submit("work", policy=AT_ONCE)) == ["up", "last"]


async def test_steps_may_be_called_much_like_waits_and_their_order_counts(place: Place) -> None:
    async def nothing() -> None: ...

    async def work(ctx: Context) -> None:
        names = ("sleepy", "waiting:room", "b") if ctx.attempt == 0 else ("sleepy", "b", "waiting:room")
        for name in names:
            await ctx.step(name, nothing)
        raise Retry

    async with place.runtime(work):
        run = await place.ended(await place.submit("work", policy=AT_ONCE))
    assert (run.failure_category, run.total_attempt_count) == ("step_mismatch", 2)
    assert "stored as 'waiting:room'" in run.failure_reason


@pytest.mark.parametrize(
    "name", ["sleep", "wait:x", "waitpoint:x", "submit:child", "fetch#2", "", "x" * 2000]
)
async def test_a_name_that_no_step_may_have_is_refused_before_it_runs(place: Place, name: str) -> None:
    ran: list[str] = []

    async def work(ctx: Context) -> list[str]:
        for call in (lambda: ctx.step(name, ran.append, "no"), lambda: ctx.step(name)):
            with pytest.raises(InvalidInput, match=r"^name: "):
                call()
        return ran

    async with place.runtime(work):
        assert await place.result(await place.submit("work")) == []


async def test_a_result_of_another_type_is_explained(place: Place) -> None:
    def before() -> dict[str, int]:
        return {"n": 1}

    def now() -> int:
        return 1

    async def work(ctx: Context) -> None:
        await ctx.step("count", now if ctx.attempt else before)
        raise Retry(after=0)

    async with place.runtime(work):
        run = await place.ended(await place.submit("work", policy=AT_ONCE))
    assert (run.failure_category, run.total_attempt_count) == ("step_mismatch", 2)
    assert run.failure_reason.startswith("the stored result of step 'count' does not fit")
    assert "Expected `int`, got `object`" in run.failure_reason


async def test_a_result_that_cannot_be_stored_names_its_step(place: Place) -> None:
    async def work(ctx: Context) -> None:
        await ctx.step("thing", object)

    async with place.runtime(work):
        run = await place.ended(await place.submit("work", policy=NO_RETRY))
    assert "the result of step 'thing': " in run.failure_reason
    assert run.failure_category == "invalid_result"


async def test_a_changed_order_of_steps_is_explained(place: Place) -> None:
    async def nothing() -> None: ...

    async def work(ctx: Context) -> None:
        names = ("a", "b", "c") if ctx.attempt == 0 else ("a", "c", "b")
        for name in names:
            await ctx.step(name, nothing)
        raise Retry

    async with place.runtime(work):
        run = await place.ended(await place.submit("work", policy=AT_ONCE))
    assert (run.failure_category, run.total_attempt_count) == ("step_mismatch", 2)
    assert "stored as 'b'" in run.failure_reason
    assert "asks for 'c'" in run.failure_reason
    assert "version=2" in run.failure_reason


async def test_sleep_gives_the_lease_back_and_goes_on(place: Place) -> None:
    runs = 0

    async def nap(ctx: Context) -> int:
        nonlocal runs
        runs += 1
        await ctx.sleep("100ms")
        await ctx.sleep(0.05)
        return runs

    async with place.runtime(nap):
        id_ = await place.submit("nap")
        assert await place.result(id_) == 3
    assert await place.steps(id_) == ["sleep", "sleep#2"]
    assert "suspended" in await place.events(id_)


async def test_a_signal_resumes_and_carries_its_payload(place: Place) -> None:
    async def ask(ctx: Context) -> Any:
        answer = await ctx.wait_for_signal("approve", "reject", timeout="1d")
        return [answer.name, answer.payload, answer.source]

    async with place.runtime(ask):
        id_ = await place.submit("ask")
        await place.state(id_, "suspended")
        await approve(place, id_, "approve", b'{"by":"me"}', "ann")
        assert await place.result(id_) == ["approve", {"by": "me"}, "ann"]


async def test_two_of_three_from_different_people(place: Place) -> None:
    async def ask(ctx: Context) -> list[str]:
        answers = await ctx.wait_for_signal("approve", count=2, distinct=True)
        return [answer.source for answer in answers]

    async with place.runtime(ask):
        id_ = await place.submit("ask")
        await place.state(id_, "suspended")
        await approve(place, id_, "approve", source="ann")
        await approve(place, id_, "approve", source="ann")
        assert (await place.run(id_)).public_state == "suspended"
        await approve(place, id_, "approve", source="ben")
        assert await place.result(id_) == ["ann", "ben"]


@pytest.mark.parametrize("count", ["all", 2])
async def test_several_signals(place: Place, count: Any) -> None:
    async def ask(ctx: Context) -> list[str]:
        answers = await ctx.wait_for_signal("paid", "packed", count=count)
        return sorted(answer.name for answer in answers)

    async with place.runtime(ask):
        id_ = await place.submit("ask")
        await place.state(id_, "suspended")
        await approve(place, id_, "packed")
        await approve(place, id_, "paid")
        assert await place.result(id_) == ["packed", "paid"]


async def test_a_wait_that_takes_too_long_raises_in_the_handler(place: Place) -> None:
    async def ask(ctx: Context) -> str:
        try:
            await ctx.wait_for_signal("approve", timeout="50ms")
        except WaitTimeout:
            return await ctx.step("after", str, "too late")
        return "approved"

    async with place.runtime(ask):
        assert await place.result(await place.submit("ask")) == "too late"


async def test_an_answer_survives_a_failure_right_after_it(place: Place) -> None:
    async def ask(ctx: Context) -> Any:
        answer = await ctx.wait_for_signal("approve")
        if ctx.attempt == 0:
            raise Retry
        return [answer.name, ctx.attempt]

    async with place.runtime(ask):
        id_ = await place.submit("ask", policy=AT_ONCE)
        await place.state(id_, "suspended")
        await approve(place, id_, "approve")
        assert await place.result(id_) == ["approve", 1]


async def test_an_operator_may_go_without_a_token(place: Place) -> None:
    async def ask(ctx: Context) -> str:
        return (await ctx.wait_for_signal("approve")).name

    async with place.runtime(ask):
        id_ = await place.submit("ask")
        await place.state(id_, "suspended")
        (waitpoint,) = (await place.store.read(ListWaitpoints(execution_id=id_))).waitpoints
        await place.store.apply(
            ApproveSignal(
                execution_id=id_,
                waitpoint_id=waitpoint.waitpoint_id,
                signal_id=new_uuid(),
                signal_name="approve",
            )
        )
        assert await place.result(id_) == "approve"


async def test_a_waitpoint_made_before_the_wait_takes_an_answer_that_comes_first(place: Place) -> None:
    sent: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    answered = asyncio.Event()

    async def ask(ctx: Context) -> Any:
        waitpoint = await ctx.create_waitpoint("approval")
        await sent.put((waitpoint.id, waitpoint.token))
        await answered.wait()
        answer = await ctx.wait_for_signal("approve", waitpoint=waitpoint)
        again = await ctx.create_waitpoint("other")
        if ctx.attempt == 0:
            raise Retry
        return [answer.name, again.token != ""]

    async with place.runtime(ask):
        id_ = await place.submit("ask", policy=AT_ONCE)
        waitpoint_id, token = await asyncio.wait_for(sent.get(), 10)
        await place.store.apply(
            DeliverSignal(
                execution_id=id_,
                waitpoint_id=waitpoint_id,
                waitpoint_token=token,
                signal_id=new_uuid(),
                signal_name="approve",
            )
        )
        answered.set()
        assert await place.result(id_) == ["approve", True]
    assert "already_satisfied" in await place.events(id_)


async def test_a_plain_function_has_the_same(place: Place) -> None:
    def work(ctx: SyncContext, text: str) -> Any:
        first = ctx.step("upper", text.upper)
        ctx.emit("token", first)
        ctx.sleep("10ms")
        answer = ctx.wait_for_signal("go")
        assert not isinstance(answer, list)
        return [first, answer.name]

    async with place.runtime(work):
        id_ = await place.submit("work", "x")
        await place.waits(id_, "go")
        await approve(place, id_, "go")
        assert await place.result(id_) == ["X", "go"]


async def test_who_we_are(place: Place) -> None:
    async def work(ctx: Context) -> Any:
        assert ctx.deadline is None
        return [ctx.execution_id, ctx.tags, ctx.attempt, ctx.fence]

    async with place.runtime(work):
        id_ = await place.submit("work", tags=(("team", "red"),))
        assert await place.result(id_) == [id_, {"team": "red"}, 0, f"{id_}:1"]


async def test_a_deadline_is_told_by_the_clock_of_the_store(place: Place) -> None:
    async def work(ctx: Context) -> float:
        assert ctx.deadline is not None
        return ctx.deadline.timestamp() * 1000

    async with place.runtime(work):
        id_ = await place.submit("work", policy={"timeout_policy": {"attempt_timeout_ms": 60_000}})
        told = await place.result(id_)
    assert told - 60_000 == pytest.approx((await place.run(id_)).started_at, abs=5)


async def test_the_logger_knows_the_run(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def work(ctx: Context) -> None:
        ctx.log.info("hello %s", "there", extra={"more": 1})

    async with place.runtime(work):
        id_ = await place.submit("work")
        await place.ended(id_)
    (record,) = [each for each in caplog.records if each.name == "flowfabric.task.work"]
    assert (record.getMessage(), vars(record)["execution_id"], vars(record)["more"]) == (
        "hello there",
        id_,
        1,
    )


async def test_two_threads_of_one_handler_store_their_steps(place: Place) -> None:
    async def work(ctx: Context) -> list[str]:
        return list(await asyncio.gather(*(ctx.step("part", str.upper, letter) for letter in "abc")))

    async with place.runtime(work):
        id_ = await place.submit("work")
        assert await place.result(id_) == ["A", "B", "C"]
    assert sorted(await place.steps(id_)) == ["part", "part#2", "part#3"]


async def test_waiting_inside_a_group_of_tasks_unwinds_all_of_it(place: Place) -> None:
    async def work(ctx: Context) -> str:
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(_wait(ctx))
        return waiting.result()

    async def _wait(ctx: Context) -> str:
        return (await ctx.wait_for_signal("go")).name

    async with place.runtime(work):
        id_ = await place.submit("work")
        await place.waits(id_, "go")
        await approve(place, id_, "go")
        assert await place.result(id_) == "go"
    assert "failed" not in await place.events(id_)


def test_a_mismatch_names_both_lists() -> None:
    error = StepMismatch(("a", "b"), ("a", "c"))
    assert "Stored: a, b" in str(error)
    assert "Asked: a, c" in str(error)


async def test_an_approval_link_is_a_page_of_a_server(place: Place) -> None:
    links: asyncio.Queue[str] = asyncio.Queue()

    async def ask(ctx: Context) -> str:
        waitpoint = await ctx.create_waitpoint("approval")
        await links.put(await ctx.approval_link(waitpoint, "approve", expires="1h", to="ann"))
        return (await ctx.wait_for_signal("approve", waitpoint=waitpoint)).source

    async with place.runtime(ask):
        id_ = await place.submit("ask", policy=NO_RETRY)
        if place.name != "http":
            run = await place.ended(id_)
            assert "approval links are pages of a server" in run.failure_reason
            return
        link = await asyncio.wait_for(links.get(), 10)
        async with aiohttp.ClientSession() as browser, browser.post(link) as answer:
            assert answer.status == 200
        assert await place.result(id_) == "ann"


async def test_an_approval_link_stays_the_same_and_brings_choice_and_comment(tmp_path: Path) -> None:
    links: list[str] = []
    shown = asyncio.Event()

    async def ask(ctx: Context) -> list[Any]:
        waitpoint = await ctx.create_waitpoint("approval", message="Pay?", details={"amount": 5})
        links.append(await ctx.approval_link(waitpoint, "approve", "reject", expires="1h"))
        shown.set()
        answer = await ctx.wait_for_signal("approve", "reject", waitpoint=waitpoint)
        return [answer.name, answer.payload, answer.source]

    async with place_on("http", tmp_path) as place, place.runtime(ask):
        id_ = await place.submit("ask", policy=NO_RETRY)
        await asyncio.wait_for(shown.wait(), 10)
        async with asyncio.timeout(20), place.behind.subscribe([f"execution:{id_}"]) as woken:
            while (await place.behind.read(GetExecution(execution_id=id_))).public_state != "suspended":
                await woken.wait(1.0)
        form = {"signal": "reject", "comment": "no money", "name": "Bea"}
        async with aiohttp.ClientSession() as browser, browser.get(links[0]) as page:
            assert "Pay?" in await page.text()
        async with aiohttp.ClientSession() as browser, browser.post(links[0], data=form) as answer:
            assert answer.status == 200
        assert await place.result(id_) == ["reject", {"comment": "no money"}, "Bea"]
    assert len(links) == 2
    assert len(set(links)) == 1


async def long_result(ctx: Context) -> None:
    await ctx.step("read", lambda: "x" * 2_000_000)


async def odd_count(ctx: Context) -> None:
    await ctx.wait_for_signal("go", count="some")  # type: ignore[call-overload]


async def odd_summary(ctx: Context) -> None:
    await ctx.summary([1])  # type: ignore[arg-type]


async def several(ctx: Context) -> None:
    async def fails(key: str) -> None:
        raise KeyError(key)

    async with asyncio.TaskGroup() as group:
        group.create_task(ctx.step("one", fails, "a"))


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (long_result, "step 'read' is 2000002 bytes long, and at most 1048576 are kept: put it elsewhere"),
        (odd_count, "count: 'some' is neither a number nor 'any' or 'all'"),
        (odd_summary, "patch: give names and their values, not list"),
        (several, "unhandled errors in a TaskGroup: KeyError: 'a'"),
    ],
)
async def test_a_failure_names_what_is_wrong_and_what_to_do(place: Place, function: Any, says: str) -> None:
    async with place.runtime(function):
        run = await place.ended(await place.submit(function.__name__, policy=NO_RETRY))
    assert says in run.failure_reason
