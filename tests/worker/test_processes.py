"""Handlers in processes of their own, with the context that all others have."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from flowfabric.model.operations.signal import ApproveSignal
from flowfabric.model.operations.stream import ReadStream, ReadSummary
from flowfabric.model.operations.suspend_waitpoint import ListWaitpoints
from flowfabric.storage.minting import new_uuid
from flowfabric.worker import Permanent, Retry, SyncContext
from flowfabric.worker.execution.processes import _HandlerProcess
from support.until import until
from support.working import Place, handler

NO_RETRY = {"retry_policy": {"max_retries": 0}}
AT_ONCE = {"retry_policy": {"max_retries": 3, "backoff": {"type": "fixed", "delay_ms": 0}}}


@dataclasses.dataclass
class Point:
    x: int


class Peculiar(Exception):
    """Can be written, and not read again."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} {two}")


def double(n: int, /, by: int = 2) -> dict[str, Any]:
    return {"doubled": by * n, "main": threading.current_thread().name, "process": os.getpid()}


async def awaiting(ctx: SyncContext, n: int) -> list[int]:
    await asyncio.sleep(0)
    return [n, ctx.attempt]


def crashing() -> None:
    os._exit(3)


def failing() -> None:
    raise Peculiar("how", "odd")


def giving_up() -> None:
    raise Permanent("no such thing")


def facts(ctx: SyncContext) -> dict[str, Any]:
    return {
        "id": ctx.execution_id,
        "attempt": ctx.attempt,
        "tags": ctx.tags,
        "fence": ctx.fence,
        "deadline": ctx.deadline,
        "events": [ctx.cancelled, ctx.lost],
    }


def noted(path: str, x: int) -> Point:
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(f"{x} {os.getpid() != os.getppid()}\n")
    return Point(x)


async def soon(x: int) -> Point:
    return Point(x)


def stepping(ctx: SyncContext, path: str) -> list[int]:
    @ctx.step("noted")
    def again(x: int) -> Point:
        return noted(path, x)

    points = [ctx.step("noted", noted, path, 1), again(2), ctx.step("soon", soon, 3)]
    if ctx.attempt == 0:
        raise Retry(after=0)
    return [point.x for point in points]


def reordered(ctx: SyncContext) -> None:
    for name in ("a", "b") if ctx.attempt == 0 else ("b", "a"):
        ctx.step(name, os.getpid)
    raise Retry(after=0)


def telling(ctx: SyncContext) -> None:
    ctx.log.info("half of %s", "it", extra={"page": 7})
    ctx.progress(50, "half")
    ctx.emit("token", "a")
    ctx.emit("token", {"b": 1})
    ctx.summary({"pages": 2})
    raise ValueError("and that is all")


def writing(ctx: SyncContext) -> None:
    async def later() -> None:
        ctx.emit("token", "later")

    ctx.emit("token", "outside")
    ctx.step("write", ctx.emit, "token", "inside")
    ctx.step("outer", lambda: ctx.step("write", later))
    ctx.emit("token", "outside")


def waiting(ctx: SyncContext) -> list[Any]:
    ctx.sleep("10ms")
    answer = ctx.wait_for_signal("approve", name="approval")
    return [answer.name, answer.payload]


def impatient(ctx: SyncContext) -> str:
    try:
        ctx.wait_for_signal("approve", timeout="10ms")
    except TimeoutError as error:
        return str(error)
    return "it came"


def told_to_stop() -> int:
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(os.getpid(), number)
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    started.terminate()
    return started.wait()


async def test_a_stop_of_everything_is_for_the_worker_to_decide(place: Place) -> None:
    async with place.runtime(handler(told_to_stop, "process")):
        assert await place.result(await place.submit("told_to_stop")) == -signal.SIGTERM


async def test_frames_know_the_step_that_emitted_them(place: Place) -> None:
    async with place.runtime(handler(writing, "process")):
        id_ = await place.submit("writing")
        await place.result(id_)
    page = await place.store.read(ReadStream(execution_id=id_, attempt_index=0, count=10))
    assert [(view.frame.payload, view.frame.step) for view in page.frames] == [
        (b"outside", ""),
        (b"inside", "write"),
        (b"later", "write#2"),
        (b"outside", ""),
    ]


async def test_a_process_of_its_own(place: Place) -> None:
    async with place.runtime(handler(double, "process"), handler(awaiting, "process")):
        made = await place.result(await place.submit("double", 4))
        assert (made["doubled"], made["main"]) == (8, "MainThread")
        assert made["process"] != os.getpid()
        assert await place.result(await place.submit("awaiting", {"n": 5})) == [5, 0]


async def test_a_process_that_dies_is_a_failure(place: Place) -> None:
    async with place.runtime(handler(crashing, "process")):
        run = await place.ended(await place.submit("crashing", policy=NO_RETRY))
    assert run.failure_category == "infra_crash"
    assert "code 3" in run.failure_reason


async def test_exceptions_cross_with_their_traceback(place: Place) -> None:
    async with place.runtime(handler(failing, "process"), handler(giving_up, "process")):
        id_ = await place.submit("failing", policy=NO_RETRY)
        run = await place.ended(id_)
        assert "Peculiar cannot cross" in run.failure_reason
        assert "how odd" in run.failure_reason
        (attempt,) = await place.attempts(id_)
        assert 'raise Peculiar("how", "odd")' in attempt.failure_detail
        run = await place.ended(await place.submit("giving_up", policy=AT_ONCE))
        assert (run.failure_category, run.total_attempt_count) == ("permanent", 1)


async def test_what_cannot_cross_is_named(place: Place) -> None:
    def local(n: int) -> int:
        return n

    async with place.runtime(handler(local, "process")):
        run = await place.ended(await place.submit("local", 1, policy=NO_RETRY))
    assert "local" in run.failure_reason


async def test_facts_are_known_there(place: Place) -> None:
    async with place.runtime(handler(facts, "process")):
        id_ = await place.submit("facts", tags=(("team", "a"),))
        told = await place.result(id_)
    assert told == {
        "id": id_,
        "attempt": 0,
        "tags": {"team": "a"},
        "fence": f"{id_}:1",
        "deadline": None,
        "events": [False, False],
    }


async def test_steps_run_there_once_and_their_results_have_their_types(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "ran"
    async with place.runtime(handler(stepping, "process")):
        id_ = await place.submit("stepping", str(path), policy=AT_ONCE)
        assert await place.result(id_) == [1, 2, 3]
    assert await place.steps(id_) == ["noted", "noted#2", "soon"]
    assert path.read_text(encoding="utf-8") == "1 True\n2 True\n"


async def test_a_changed_order_of_steps_is_noticed(place: Place) -> None:
    async with place.runtime(handler(reordered, "process")):
        run = await place.ended(await place.submit("reordered", policy=AT_ONCE))
    assert (run.failure_category, run.total_attempt_count) == ("step_mismatch", 2)


async def test_what_it_tells_arrives_before_its_end(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "flowfabric.task.telling")
    async with place.runtime(handler(telling, "process")):
        id_ = await place.submit("telling", policy=NO_RETRY)
        run = await place.ended(id_)
    assert (run.failure_reason, run.progress_pct) == ("ValueError: and that is all", 50)
    page = await place.store.read(ReadStream(execution_id=id_, attempt_index=0))
    assert [view.frame.payload for view in page.frames][:2] == [b"a", b'{"b":1}']
    summary = await place.store.read(ReadSummary(execution_id=id_, attempt_index=0))
    assert summary is not None
    assert b'"pages":2' in summary.document.replace(b" ", b"")
    (record,) = [each for each in caplog.records if each.name == "flowfabric.task.telling"]
    assert (record.getMessage(), record.__dict__["page"]) == ("half of it", 7)
    assert record.__dict__["execution_id"] == id_


async def test_it_waits_without_being_held(place: Place) -> None:
    async with place.runtime(handler(waiting, "process"), handler(impatient, "process")) as worker:
        id_ = await place.submit("waiting")
        await place.waits(id_, "approval")
        await until(lambda: not worker._processes._busy)
        page = await place.store.read(ListWaitpoints(execution_id=id_))
        await place.store.apply(
            ApproveSignal(
                execution_id=id_,
                waitpoint_id=page.waitpoints[0].waitpoint_id,
                signal_name="approve",
                signal_id=new_uuid(),
                payload=b'"fine"',
            )
        )
        assert await place.result(id_) == ["approve", "fine"]
        assert await place.result(await place.submit("impatient")) == "nobody sent approve in time"


def test_a_signal_does_not_end_a_process_that_is_still_starting() -> None:
    process = _HandlerProcess(multiprocessing.get_context("spawn"))
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(process._process.pid or 0, number)
        good, value = process.call(double, [21], {}, None)
        assert (good, value["doubled"]) == (True, 42)
    finally:
        process.kill()
        process.wait()
