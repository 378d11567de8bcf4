"""However a worker ends, what it has not finished is given back or taken over, and never counts as failed."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from flowfabric.worker import Runtime
from support.stopped_program import KINDS, Program, started
from support.until import until
from support.working import Place, handler

INT, TERM, KILL, USR1 = signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1
NO_RETRY = {"retry_policy": {"max_retries": 0}}
WAITING = "waiting up to 60 s for 8 running tasks"


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Let the programs that a test starts hear SIGINT; a run in the background of a script ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


async def submitted(place: Place) -> list[str]:
    return [await place.submit(kind) for kind in KINDS]


async def begun(program: Program) -> None:
    await program.says(*(f"begun {kind}\n" for kind in KINDS))


def successor(place: Place) -> Runtime:
    """A worker whose handlers of the same kinds end at once."""

    async def done() -> str:
        return "done"

    return place.runtime(*(handler(done, kind=kind) for kind in KINDS))


async def taken_over(place: Place, ids: list[str]) -> None:
    """Check that none of them has failed, and that another worker finishes them all."""
    async with successor(place):
        assert [await place.result(id_) for id_ in ids] == ["done"] * len(ids)
    for kind, id_ in zip(KINDS, ids, strict=True):
        failures = [each.failure_reason for each in await place.attempts(id_) if each.failure_category]
        assert (await place.run(id_)).retry_count == 0, (kind, failures)
        assert "failed" not in await place.events(id_), kind


async def assert_released(place: Place, ids: list[str]) -> None:
    ends = {kind: (await place.run(id_)).lease_end for kind, id_ in zip(KINDS, ids, strict=True)}
    assert ends == dict.fromkeys(KINDS, "released")


@pytest.mark.parametrize("numbers", [(INT, INT), (TERM, TERM), (INT, TERM), (TERM, INT)])
async def test_a_second_signal_gives_running_work_back(place: Place, numbers: tuple[int, int]) -> None:
    ids = await submitted(place)
    async with started(place.url, "run", grace="60s") as program:
        await begun(program)
        program.send(numbers[0])
        await program.says(WAITING, "a second signal gives them back now")
        program.send(numbers[1])
        assert await program.ended() == 0, program.said
    await assert_released(place, ids)
    await taken_over(place, ids)


async def test_the_wait_for_the_grace_names_what_runs(place: Place) -> None:
    ids = await submitted(place)
    async with started(place.url, "run", grace="60s") as program:
        await begun(program)
        program.send(TERM)
        await program.says(*(f"{kind} of {id_} (for " for kind, id_ in zip(KINDS, ids, strict=True)))
        program.send(TERM)
        assert await program.ended() == 0


@pytest.mark.parametrize("mode", ["run", "beside"])
async def test_a_third_interrupt_fails_nothing(place: Place, mode: str) -> None:
    ids = await submitted(place)
    async with started(place.url, mode, grace="60s") as program:
        await begun(program)
        program.send(INT)
        await program.says(WAITING)
        program.send(INT)
        await program.says("gives back")
        with suppress(ProcessLookupError):
            program.send(INT)
        await program.ended()
    await taken_over(place, ids)


async def test_a_grace_that_is_over_gives_work_back(place: Place) -> None:
    ids = await submitted(place)
    async with started(place.url, "run", grace="200ms") as program:
        await begun(program)
        program.send(TERM)
        assert await program.ended() == 0
    await assert_released(place, ids)
    await taken_over(place, ids)


async def test_interrupts_of_a_program_with_a_worker_beside_it(place: Place) -> None:
    ids = await submitted(place)
    async with started(place.url, "beside", grace="60s") as program:
        await begun(program)
        program.send(INT)
        await program.says(WAITING)
        program.send(INT)
        assert await program.ended() in {-INT, 1, 130}, program.said
        assert "KeyboardInterrupt" in program.said
    await taken_over(place, ids)


@pytest.mark.parametrize("mode", ["in_task_group", "around_group"])
async def test_a_group_of_tasks_that_fails_around_a_worker(place: Place, mode: str) -> None:
    ids = await submitted(place)
    async with started(place.url, mode, grace="200ms") as program:
        await begun(program)
        program.send(USR1)
        assert await program.ended() == 1
        assert "another part of the program has failed" in program.said
    await assert_released(place, ids)
    await taken_over(place, ids)


async def test_a_loop_whose_tasks_are_all_cancelled(place: Place) -> None:
    ids = await submitted(place)
    async with started(place.url, "cancelled", grace="60s") as program:
        await begun(program)
        program.send(USR1)
        assert await program.ended() == 1
    await taken_over(place, ids)


async def test_a_killed_worker(place: Place) -> None:
    ids = await submitted(place)
    async with started(place.url, "run", grace="60s") as program:
        await begun(program)
        program.send(KILL)
        assert await program.ended() == -KILL
    await taken_over(place, ids)


async def test_a_cancellation_of_its_own_is_a_failure_of_the_handler(place: Place) -> None:
    async def cancels_itself() -> None:
        other = asyncio.create_task(asyncio.Event().wait())
        other.cancel()
        await other

    async with place.runtime(cancels_itself):
        run = await place.ended(await place.submit("cancels_itself", policy=NO_RETRY))
    assert (run.public_state, run.failure_reason) == ("failed", "CancelledError")


async def test_a_handler_whose_task_is_cancelled_by_others_is_given_back(place: Place) -> None:
    tasks: list[asyncio.Task[Any] | None] = []
    began = asyncio.Event()

    async def victim() -> int:
        tasks.append(asyncio.current_task())
        began.set()
        if len(tasks) == 1:
            await asyncio.Event().wait()
        return len(tasks)

    async with place.runtime(victim):
        id_ = await place.submit("victim", policy=NO_RETRY)
        await asyncio.wait_for(began.wait(), 10)
        assert tasks[0] is not None
        tasks[0].cancel()
        assert await place.result(id_) == 2


async def test_a_stop_that_is_cancelled_still_gives_everything_back(place: Place) -> None:
    began = asyncio.Event()

    async def stuck() -> None:
        began.set()
        await asyncio.Event().wait()

    ids = [await place.submit("stuck"), await place.submit("stuck")]
    async with place.runtime(stuck, concurrency=1, prefetch=1, lease_ttl="1h") as worker:
        await asyncio.wait_for(began.wait(), 10)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(worker.stop(grace="1h"), 0.1)
    assert [(await place.run(id_)).lease_end for id_ in ids] == ["released", "released"]


async def test_the_log_says_again_and_again_what_is_waited_for(
    place: Place, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING, "flowfabric.worker")
    monkeypatch.setattr("flowfabric.worker.runtime.REMINDER_SECONDS", 0.01)
    began, go = asyncio.Event(), asyncio.Event()

    async def patient() -> str:
        began.set()
        await go.wait()
        return "done"

    def reminders() -> list[str]:
        return [each for each in caplog.messages if "waiting up to" in each]

    async with place.runtime(patient) as worker:
        id_ = await place.submit("patient")
        await asyncio.wait_for(began.wait(), 10)
        stopping = asyncio.create_task(worker.stop(grace="1m"))
        await until(lambda: len(reminders()) > 1)
        go.set()
        await stopping
    assert await place.result(id_) == "done"
    assert f"patient of {id_} (for 0.0" in reminders()[0]
    assert "signal" not in reminders()[0]
