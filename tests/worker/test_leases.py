"""Leases are kept while handlers block, and handlers stop when they are lost."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from flowfabric.model.operations.finish import Cancel
from flowfabric.model.operations.lease import RevokeLease
from flowfabric.worker import Handler, LeaseLost, Runtime, WorkerSettings
from support.working import Context, Place, SyncContext, handler, table

TTL = 1.0
LONG = 600
"""So long that no renewal comes while a test runs: what a handler learns, it was told."""


@asynccontextmanager
async def elsewhere(place: Place, *functions: Callable[..., Any] | Handler) -> AsyncIterator[None]:
    """Run a worker in a thread and a loop of its own, so that the store and its engine are never blocked with it."""
    started, stop = threading.Event(), threading.Event()

    async def work() -> None:
        settings = WorkerSettings(lease_ttl=TTL, grace=0)
        async with Runtime(place.url, table(*functions), settings):
            started.set()
            await asyncio.to_thread(stop.wait)

    working = asyncio.ensure_future(asyncio.to_thread(asyncio.run, work()))
    await asyncio.to_thread(started.wait)
    try:
        yield
    finally:
        stop.set()
        await working


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    caplog.set_level(logging.WARNING, "flowfabric.worker")
    return lambda: "\n".join(record.getMessage() for record in caplog.records)


async def test_a_handler_that_blocks_the_loop_keeps_its_lease(
    place: Place, warnings: Callable[[], str]
) -> None:
    async def blocking() -> str:
        time.sleep(3.2 * TTL)  # noqa: ASYNC251 - that is the point
        return "done"

    async with elsewhere(place, blocking):
        id_ = await place.submit("blocking")
        assert await place.result(id_) == "done"
    assert len(await place.attempts(id_)) == 1
    assert "handler 'blocking' blocks the event loop" in warnings()
    assert "test_leases.py" in warnings()


@pytest.mark.parametrize("executor", ["loop", "thread"])
async def test_a_handler_that_holds_the_interpreter_keeps_its_lease(
    place: Place, executor: Any, warnings: Callable[[], str]
) -> None:
    usleep = ctypes.PyDLL(None).usleep  # unlike CDLL, it keeps the interpreter's lock

    def holding() -> str:
        for _ in range(6):
            usleep(int(TTL / 2 * 1_000_000))
            time.sleep(0.1)  # a moment for a renewal, which takes a few turns of the interpreter
        return "done"

    async def holding_on_loop() -> str:
        return holding()

    function = handler(holding_on_loop if executor == "loop" else holding, executor, kind="holding")
    async with elsewhere(place, function):
        id_ = await place.submit("holding")
        assert await place.result(id_) == "done"
    assert len(await place.attempts(id_)) == 1
    assert "executor='process'" in warnings()
    assert "'holding'" in warnings()


async def test_a_lost_lease_stops_the_handler(place: Place) -> None:
    begun, seen = asyncio.Event(), asyncio.Queue[str]()

    async def stubborn(ctx: Context) -> str:
        if ctx.attempt:
            return "second"
        begun.set()
        try:
            try:
                await asyncio.Event().wait()
            except Exception:  # noqa: BLE001 - that is what people write
                seen.put_nowait("swallowed")
        except LeaseLost:
            seen.put_nowait(f"lost {ctx.lost.is_set()}")
            raise
        return "first"

    async with place.runtime(stubborn, lease_ttl=LONG):
        id_ = await place.submit("stubborn")
        await asyncio.wait_for(begun.wait(), 10)
        await place.store.apply(RevokeLease(execution_id=id_))
        assert await asyncio.wait_for(seen.get(), 10) == "lost True"
        assert await place.result(id_) == "second"


async def test_a_cancelled_run_stops_its_handler(place: Place) -> None:
    begun, seen = asyncio.Event(), asyncio.Queue[tuple[bool, bool]]()

    async def work(ctx: Context) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            seen.put_nowait((ctx.cancelled.is_set(), ctx.lost.is_set()))

    async with place.runtime(work, lease_ttl=LONG):
        id_ = await place.submit("work")
        await asyncio.wait_for(begun.wait(), 10)
        await place.store.apply(Cancel(execution_id=id_, source="operator", reason="not needed"))
        assert await asyncio.wait_for(seen.get(), 10) == (True, True)
    assert (await place.run(id_)).public_state == "cancelled"


async def test_a_lost_lease_is_raised_into_a_thread(place: Place) -> None:
    begun, seen = threading.Event(), threading.Event()

    def spinning() -> None:
        try:
            while True:
                begun.set()
                with contextlib.suppress(Exception):  # that is what people write
                    time.sleep(0.001)
        except LeaseLost:
            seen.set()
            raise

    async with place.runtime(spinning, lease_ttl=LONG):
        id_ = await place.submit("spinning")
        assert await asyncio.to_thread(begun.wait, 10)
        await place.store.apply(Cancel(execution_id=id_, source="operator", reason="not needed"))
        assert await asyncio.to_thread(seen.wait, 10)


async def test_a_thread_that_waits_through_its_context_is_interrupted_too(place: Place) -> None:
    begun, seen = asyncio.Event(), threading.Event()

    async def for_ever() -> None:
        begun.set()
        await asyncio.Event().wait()

    def waiting(ctx: SyncContext) -> None:
        try:
            ctx.step("for ever", for_ever)
        except LeaseLost:
            seen.set()
            raise

    async with place.runtime(waiting, lease_ttl=LONG):
        id_ = await place.submit("waiting")
        await asyncio.wait_for(begun.wait(), 10)
        await place.store.apply(Cancel(execution_id=id_, source="operator", reason="not needed"))
        assert await asyncio.to_thread(seen.wait, 10)


async def test_a_thread_that_waits_is_interrupted_under_a_tracer_too(place: Place) -> None:
    """A pending exception for a thread that cannot take it stops every traced thread of Python 3.11."""
    begun, seen = asyncio.Event(), threading.Event()

    async def for_ever() -> None:
        begun.set()
        await asyncio.Event().wait()

    def waiting(ctx: SyncContext) -> None:
        try:
            ctx.step("for ever", for_ever)
        except LeaseLost:
            seen.set()
            raise

    async with place.runtime(waiting, lease_ttl=LONG):
        id_ = await place.submit("waiting")
        await asyncio.wait_for(begun.wait(), 10)
        before = sys.gettrace()
        sys.settrace(lambda *_: None)
        try:
            await place.store.apply(Cancel(execution_id=id_, source="operator", reason="not needed"))
            assert await asyncio.to_thread(seen.wait, 10)
        finally:
            sys.settrace(before)


def sleeping_for_ever() -> None:
    time.sleep(3600)


async def test_a_lost_lease_kills_the_process_of_its_handler(place: Place) -> None:
    async with place.runtime(handler(sleeping_for_ever, "process"), lease_ttl=LONG) as worker:
        id_ = await place.submit("sleeping_for_ever")
        await place.state(id_, "active")
        await place.store.apply(Cancel(execution_id=id_, source="operator", reason="not needed"))
        async with asyncio.timeout(15):
            while worker._running:  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.01)
        assert not worker._processes._busy
