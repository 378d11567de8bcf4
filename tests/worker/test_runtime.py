"""The runtime: handlers run, and how they end is told."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any

from flowfabric.model.operations.read import GetResult
from flowfabric.model.records import Result
from flowfabric.worker import Layer, Permanent, Retry, Runtime, WorkerSettings
from support.working import Context, Place, table

NO_RETRY = {"retry_policy": {"max_retries": 0}}
AT_ONCE = {"retry_policy": {"max_retries": 3, "backoff": {"type": "fixed", "delay_ms": 0}}}


async def test_a_handler_gets_its_arguments_and_its_value_is_the_result(place: Place) -> None:
    async def add(a: int, b: int = 2) -> dict[str, int]:
        return {"sum": a + b}

    async with place.runtime(add):
        assert await place.result(await place.submit("add", {"a": 1})) == {"sum": 3}


async def test_more_tasks_than_slots_are_all_done_and_never_more_at_once(place: Place) -> None:
    running = most = 0

    async def count(n: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return n

    ids = [await place.submit("count", n) for n in range(40)]
    async with place.runtime(count, concurrency=4, prefetch=4):
        assert [await place.result(id_) for id_ in ids] == list(range(40))
    assert most == 4


async def test_a_task_that_has_ended_is_gone_without_the_garbage_collector(place: Place) -> None:
    held: list[weakref.ref[Any]] = []

    async def work(ctx: Context) -> None:
        held.append(weakref.ref(ctx.task))

    gc.disable()
    try:
        async with place.runtime(work):
            await place.ended(await place.submit("work"))
        assert [each() for each in held] == [None]
    finally:
        gc.enable()


async def test_a_plain_function_runs_in_a_thread(place: Place) -> None:
    def where() -> str:
        return threading.current_thread().name

    async with place.runtime(where):
        assert (await place.result(await place.submit("where"))).startswith("flowfabric-handler")


async def test_an_unknown_kind_is_left_to_others(place: Place) -> None:
    async def known() -> int:
        return 1

    async def other() -> int:
        return 2

    foreign = await place.submit("other")
    async with place.runtime(known):
        assert await place.result(await place.submit("known")) == 1
        assert (await place.run(foreign)).public_state == "waiting"
        async with place.runtime(other):
            assert await place.result(foreign) == 2


async def test_an_exception_fails_with_its_traceback(place: Place) -> None:
    async def broken() -> None:
        raise ValueError("no such thing")

    async with place.runtime(broken):
        id_ = await place.submit("broken", policy=NO_RETRY)
        run = await place.ended(id_)
    (attempt,) = await place.attempts(id_)
    assert run.public_state == "failed"
    assert (run.failure_reason, run.failure_category) == ("ValueError: no such thing", "handler_error")
    assert 'raise ValueError("no such thing")' in attempt.failure_detail
    assert "flowfabric/worker" not in attempt.failure_detail


async def test_an_input_that_does_not_fit_fails_and_names_the_argument_without_running(place: Place) -> None:
    ran = []

    async def pages(count: int) -> None:
        ran.append(count)

    async with place.runtime(pages):
        run = await place.ended(await place.submit("pages", {"count": "many"}, policy=AT_ONCE))
    assert (run.failure_category, run.total_attempt_count) == ("invalid_input", 1)
    assert run.failure_reason.startswith("count:")
    assert not ran


async def test_permanent_is_not_tried_again_and_retry_is(place: Place) -> None:
    calls: list[str] = []

    async def never() -> None:
        calls.append("never")
        raise Permanent("no such customer")

    async def again(ctx: Context) -> int:
        calls.append("again")
        if ctx.attempt < 2:
            raise Retry("busy", after=0)
        return ctx.attempt

    async with place.runtime(never, again):
        failed = await place.ended(await place.submit("never", policy=AT_ONCE))
        assert await place.result(await place.submit("again", policy=AT_ONCE)) == 2
    assert (failed.public_state, failed.failure_reason) == ("failed", "no such customer")
    assert sorted(calls) == ["again", "again", "again", "never"]


async def test_a_result_that_cannot_be_written_is_a_failure(place: Place) -> None:
    async def thing() -> Any:
        return object()

    async def huge() -> str:
        return "x" * 2_000_000

    async with place.runtime(thing, huge):
        for kind in ("thing", "huge"):
            run = await place.ended(await place.submit(kind, policy=NO_RETRY))
            assert run.failure_category == "invalid_result", kind


async def test_bytes_go_in_and_out_untouched(place: Place) -> None:
    async def upper(data: bytes) -> bytes:
        return data.upper()

    async with place.runtime(upper):
        id_ = await place.submit("upper", b"\xff\x00abc")
        await place.ended(id_)
    view = await place.store.read(GetResult(execution_id=id_))
    assert view.result == Result(b"\xff\x00ABC", "bytes")


async def test_an_attempt_that_takes_too_long_is_interrupted_and_expires(place: Place) -> None:
    ended = asyncio.Event()

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    policy = {**NO_RETRY, "timeout_policy": {"attempt_timeout_ms": 200}}
    async with place.runtime(slow):
        id_ = await place.submit("slow", policy=policy)
        await asyncio.wait_for(ended.wait(), 10)
        assert (await place.ended(id_)).public_state == "expired"


async def test_the_time_of_an_attempt_begins_with_its_claim(place: Place) -> None:
    async def first() -> None: ...

    async def quick() -> str:
        await asyncio.sleep(0.01)
        return "in time"

    async with place.runtime(first, quick, lease_ttl="60s"):
        await place.ended(await place.submit("first"))  # after it the worker waits in a claim
        id_ = await place.submit("quick", policy={"timeout_policy": {"attempt_timeout_ms": 5_000}})
        assert await place.result(id_) == "in time"


async def test_a_stopped_worker_gives_back_what_it_has_not_finished(place: Place) -> None:
    begun = asyncio.Event()

    async def stuck() -> None:
        begun.set()
        await asyncio.Event().wait()

    ids = [await place.submit("stuck"), await place.submit("stuck")]
    async with place.runtime(stuck, concurrency=1, prefetch=1, lease_ttl="30s") as worker:
        await asyncio.wait_for(begun.wait(), 10)
        await worker.stop(grace=0)
    assert [(await place.run(id_)).lease_end for id_ in ids] == ["released", "released"]


class Telling(Layer):
    """Tells of the first claim when it is on its way."""

    def __init__(self) -> None:
        self.claiming = asyncio.Event()

    def before(self, method: str) -> None:
        if method == "claim":
            self.claiming.set()


async def test_what_a_claim_brings_while_the_worker_stops_is_given_back(place: Place) -> None:
    ran = asyncio.Event()

    async def work() -> None:
        ran.set()

    telling = Telling()
    await place.submit("work")
    long = WorkerSettings(lease_ttl="1h")
    async with Runtime(place.store, table(work), long, url=place.url, layers=[telling]) as worker:
        await asyncio.wait_for(telling.claiming.wait(), 10)
        await worker.stop()
        assert not ran.is_set()
    async with place.runtime(work):
        await asyncio.wait_for(ran.wait(), 10)


async def test_running_handlers_get_their_grace(place: Place) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def patient() -> str:
        begun.set()
        await go.wait()
        return "done"

    async with place.runtime(patient) as worker:
        id_ = await place.submit("patient")
        await asyncio.wait_for(begun.wait(), 10)
        stopping = asyncio.create_task(worker.stop(grace=20))
        go.set()
        await stopping
    assert await place.result(id_) == "done"
