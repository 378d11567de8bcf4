"""One interface for the engine and its ceilings, and the ways to drain it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from bench.settings import Settings
from bench.work import claim_of, creation
from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.finish import Complete, Completed
from flowfabric.storage.base import Commands

T = TypeVar("T")


class Queue(Protocol[T]):
    """A queue that accepts, hands out and completes tasks."""

    async def submit(self, body: bytes) -> None:
        """Add one task."""

    async def claim(self, worker: str, limit: int) -> Sequence[T]:
        """Take up to `count` tasks; an empty list means that none are left."""

    async def finish(self, tasks: Sequence[T]) -> None:
        """Complete tasks."""

    async def close(self) -> None:
        """Close all connections."""


class EngineQueue:
    """The engine, through the store interface."""

    def __init__(self, store: Commands) -> None:
        self.store = store

    async def submit(self, body: bytes) -> None:
        """Create one execution."""
        await self.store.apply(creation(self.store, body))

    async def claim(self, worker: str, limit: int) -> Sequence[Task]:
        """Claim without waiting."""
        return (await self.store.apply(claim_of(worker, limit))).tasks

    async def finish(self, tasks: Sequence[Task]) -> None:
        """Complete claimed tasks."""
        commands = [Complete(execution_id=t.execution_id, fence=t.fence, result=b"{}") for t in tasks]
        if len(commands) == 1:
            await self.store.apply(commands[0])
            return
        replies = await self.store.apply_many(commands)
        assert all(isinstance(reply, Completed) for reply in replies), replies

    async def close(self) -> None:
        """Close the store."""
        await self.store.close()


async def submit_all(queue: Queue[T], settings: Settings) -> None:
    """Submit as many tasks as the settings say."""
    body = settings.body()
    await from_every_slot(lambda: queue.submit(body), settings)


async def from_every_slot(submit: Callable[[], Awaitable[object]], settings: Settings) -> None:
    """Submit one by one, with as many concurrent submitters as slots."""
    numbers = iter(range(settings.tasks))

    async def submitter() -> None:
        for _ in numbers:
            await submit()

    await asyncio.gather(*(submitter() for _ in range(settings.slots)))


async def drain(queue: Queue[T], settings: Settings, slots: int, name: str) -> int:
    """Drain as the settings say; return how many tasks were completed."""
    if settings.prefetch:
        return await drain_ahead(queue, slots, settings.prefetch, name)
    if settings.claims == "shared":
        return await drain_shared(queue, slots, name)
    return await drain_one_by_one(queue, slots, name)


async def drain_one_by_one(queue: Queue[T], slots: int, name: str) -> int:
    """Let every slot claim one task at a time."""

    async def slot() -> int:
        done = 0
        while tasks := await queue.claim(name, 1):
            await queue.finish(tasks)
            done += 1
        return done

    return sum(await asyncio.gather(*(slot() for _ in range(slots))))


async def drain_shared(queue: Queue[T], slots: int, name: str) -> int:
    """Drain as a worker does.

    A slot is free when its handler has returned, so what is finished is completed in the same moment in which the
    next tasks are claimed; at most `slots` handlers run at once.
    """
    done = 0
    tasks: Sequence[T] = ()
    while True:
        claiming = asyncio.ensure_future(queue.claim(name, slots))
        if tasks:
            await queue.finish(tasks)
        done += len(tasks)
        tasks = await claiming  # a handler that does nothing returns at once
        if not tasks:
            return done


async def drain_ahead(queue: Queue[T], slots: int, ahead: int, name: str) -> int:
    """Hold up to `ahead` tasks: slots complete one half while one call claims the other."""
    half = max(1, ahead // 2)

    async def slot(batch: Iterator[T]) -> None:
        for task in batch:
            await queue.finish([task])

    done = 0
    claiming = asyncio.ensure_future(queue.claim(name, half))
    while tasks := await claiming:
        claiming = asyncio.ensure_future(queue.claim(name, half))
        batch = iter(tasks)
        await asyncio.gather(*(slot(batch) for _ in range(slots)))
        done += len(tasks)
    return done
