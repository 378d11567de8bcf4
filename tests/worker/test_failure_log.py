"""What the log of a worker says about attempts that failed."""

from __future__ import annotations

import logging

import pytest

from flowfabric.worker.handlers import Executor
from support.working import Place, handler

ONE_RETRY = {"retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 0}}}
NO_RETRY = {"retry_policy": {"max_retries": 0}}


def deep() -> None:
    raise ValueError("no such thing")


def broken() -> None:
    deep()


async def broken_on_loop() -> None:
    deep()


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str, str]]:
    """Level, text and traceback of each failure."""
    formatter = logging.Formatter()
    return [
        (each.levelno, each.getMessage(), formatter.formatException(each.exc_info) if each.exc_info else "")
        for each in caplog.records
        if each.name == "flowfabric.worker" and " failed (attempt " in each.getMessage()
    ]


@pytest.mark.parametrize("executor", ["loop", "thread", "process"])
async def test_a_retried_failure_is_a_warning_and_a_final_one_an_error(
    place: Place, caplog: pytest.LogCaptureFixture, executor: Executor
) -> None:
    caplog.set_level(logging.INFO, "flowfabric.worker")
    function = broken_on_loop if executor == "loop" else broken
    async with place.runtime(handler(function, executor, "broken")):
        id_ = await place.submit("broken", policy=ONE_RETRY)
        await place.ended(id_)
    (first, second) = logged(caplog)
    assert (first[0], second[0]) == (logging.WARNING, logging.ERROR)
    beginning = f"broken of {id_} failed (attempt %d, handler_error): ValueError: no such thing; "
    assert first[1].startswith(beginning % 0 + "attempt 1 follows")
    assert second[1] == beginning % 1 + "no attempt follows"
    for _, _, trace in (first, second):
        assert "in deep" in trace
        assert trace.rstrip().endswith("ValueError: no such thing")
    if executor != "process":
        assert "flowfabric/worker" not in first[2]


async def test_an_input_that_does_not_fit_has_no_traceback(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    async def pages(count: int) -> int:
        return count

    async with place.runtime(pages):
        await place.ended(await place.submit("pages", {"count": "many"}, policy=NO_RETRY))
    ((level, text, trace),) = logged(caplog)
    assert (level, trace) == (logging.ERROR, "")
    assert "failed (attempt 0, invalid_input): count:" in text


async def test_a_result_that_is_refused_is_logged(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    async def huge() -> str:
        return "x" * 2_000_000

    async with place.runtime(huge):
        await place.ended(await place.submit("huge", policy=NO_RETRY))
    ((level, text, _),) = logged(caplog)
    assert level == logging.ERROR
    assert "invalid_result" in text


async def test_work_that_succeeds_or_is_given_back_logs_no_failure(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "flowfabric.worker")

    async def fine() -> int:
        return 1

    async with place.runtime(fine):
        assert await place.result(await place.submit("fine")) == 1
    assert not logged(caplog)
    assert not [each for each in caplog.records if each.levelno > logging.INFO]
