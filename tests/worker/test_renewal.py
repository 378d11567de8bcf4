"""Renewals whose outcome nobody knows are asked for again while the lease lives: no lease is forgotten or given up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from flowfabric.model.command import Command
from flowfabric.model.errors import FlowFabricError, StoreBusy, Unreachable
from flowfabric.model.operations.lease import Renew, RevokeLease
from flowfabric.storage import open_store
from flowfabric.storage.base import Commands
from flowfabric.worker import Layer, Worker, WorkerSettings
from flowfabric.worker.claimed_task import ClaimedTask
from support.until import until
from support.working import Place

Replies = list[Any]


class Faulty:
    """The connection of a renewal thread: what `meddle` returns stands for the answers of the store."""

    def __init__(self, store: Commands, meddle: Callable[[Sequence[Renew]], Any]) -> None:
        self._store, self._meddle = store, meddle

    async def apply_many(self, commands: Sequence[Command[Any]]) -> Replies:
        told = self._meddle([each for each in commands if isinstance(each, Renew)])
        if asyncio.iscoroutine(told):
            await told
        replies: Replies = list(await self._store.apply_many(commands))
        return [
            (told or {}).get(command.execution_id, reply) if isinstance(command, Renew) else reply
            for command, reply in zip(commands, replies, strict=True)
        ]

    async def close(self) -> None:
        await self._store.close()


class Deaf(Worker):
    """Ignores revocations, so that only the thread renews."""

    async def _watch_revocations(self) -> None:
        await asyncio.Event().wait()


@asynccontextmanager
async def worker_on(
    place: Place, meddle: Callable[[Sequence[Renew]], Any], ttl: str = "3s"
) -> AsyncIterator[Worker]:
    async def connect() -> Faulty:
        return Faulty(await open_store(place.url), meddle)

    settings = WorkerSettings(lanes=("default",), lease_ttl=ttl, concurrency=8)
    async with Deaf(place.store, settings, connect=connect) as worker:
        yield worker


async def claimed(place: Place, worker: Worker, count: int) -> list[ClaimedTask]:
    for _ in range(count):
        await place.submit("work")
    tasks: list[ClaimedTask] = []
    async with asyncio.timeout(10):
        while len(tasks) < count:
            tasks += await worker.claim(count - len(tasks), wait="5s")
    return tasks


async def test_of_many_leases_those_that_failed_are_asked_for_again(place: Place) -> None:
    asked: list[set[str]] = []
    unlucky: set[str] = set()

    def meddle(renewals: Sequence[Renew]) -> dict[str, FlowFabricError]:
        ids = {each.execution_id for each in renewals}
        asked.append(ids)
        return {id_: StoreBusy() for id_ in ids & unlucky} if len(asked) <= 2 else {}

    async with worker_on(place, meddle) as worker:
        tasks = await claimed(place, worker, 4)
        since = {task.execution_id: task.hold.since for task in tasks}
        unlucky |= {tasks[1].execution_id, tasks[3].execution_id}
        await until(lambda: all(task.hold.since > since[task.execution_id] for task in tasks))
        assert asked[0] == set(since)
        assert asked[1] == asked[2] == unlucky, "only what is in doubt is asked for before the next turn"
        for task in tasks:
            assert (task.is_lease_healthy, task.consecutive_renewal_failures) == (True, 0)
            await task.complete()


async def test_a_call_that_hangs_costs_no_lease(place: Place) -> None:
    calls: list[int] = []

    def meddle(renewals: Sequence[Renew]) -> Any:
        calls.append(len(renewals))
        return asyncio.Event().wait() if len(calls) == 1 else None  # the first is never answered

    async with worker_on(place, meddle) as worker:
        tasks = await claimed(place, worker, 2)
        since = {task.execution_id: task.hold.since for task in tasks}
        await until(lambda: all(task.hold.since > since[task.execution_id] for task in tasks))
        assert calls[0] == 2
        assert all(task.is_lease_healthy for task in tasks)
        for task in tasks:
            await task.complete()


async def test_a_call_that_hangs_for_ever_is_a_lost_lease_in_time(place: Place) -> None:
    async with worker_on(place, lambda _: asyncio.Event().wait(), ttl="1s") as worker:
        (task,) = await claimed(place, worker, 1)
        lost = asyncio.get_running_loop().create_future()
        task.hold.on_loss = lost.set_result
        error = await asyncio.wait_for(lost, 10)
        assert error.code == "lease_expired"
        assert "could not be renewed in time" in str(error)
        task.let_go("test")


async def test_a_connection_that_cannot_be_opened_at_first(place: Place) -> None:
    tries: list[int] = []

    async def connect() -> Commands:
        tries.append(1)
        if len(tries) <= 2:
            raise Unreachable
        return await open_store(place.url)

    settings = WorkerSettings(lanes=("default",), lease_ttl="3s")
    async with Deaf(place.store, settings, connect=connect) as worker:
        (task,) = await claimed(place, worker, 1)
        since = task.hold.since
        await until(lambda: task.hold.since > since)
        assert (len(tries), task.is_lease_healthy) == (3, True)
        await task.complete()


class Clumsy(Layer):
    """A layer with a defect, which shows at the first renewal."""

    def __init__(self) -> None:
        self.seen = 0

    def before(self, method: str) -> None:
        if method == "renew":
            self.seen += 1
            if self.seen == 1:
                raise KeyError("a defect of this layer")


async def test_a_defect_of_a_layer_does_not_end_renewal(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    settings = WorkerSettings(lanes=("default",), lease_ttl="3s")
    worker = await Worker.open(place.store, settings, url=place.url, layers=(Clumsy(),))
    with caplog.at_level(logging.ERROR, "flowfabric.worker"):
        async with worker:
            (task,) = await claimed(place, worker, 1)
            since = task.hold.since
            await until(lambda: task.hold.since > since)
            await task.complete()
    assert "a defect of this layer" in caplog.text


class Away(Layer):
    """A store that cannot be asked for renewals while `away`."""

    away = False

    def before(self, method: str) -> None:
        if self.away and method == "renew":
            raise Unreachable


async def test_a_look_that_could_not_be_made_is_made_up_for(place: Place) -> None:
    """The lease was taken away, and the call that would have told it failed: the next turn is minutes away."""
    layer = Away()
    settings = WorkerSettings(lanes=("default",), lease_ttl="600s")
    async with await Worker.open(place.store, settings, url=place.url, layers=(layer,)) as worker:
        (task,) = await claimed(place, worker, 1)
        layer.away = True
        await place.store.apply(RevokeLease(execution_id=task.execution_id))
        await worker.renewer.renew_now()
        assert task.hold.loss is None
        layer.away = False
        await until(lambda: task.hold.loss is not None)
        assert not task.is_lease_healthy
        task.let_go("test")
