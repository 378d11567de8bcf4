"""Scenario 1 through the public API: submit a task of an app and run it with a worker."""

from __future__ import annotations

import asyncio

import msgspec

from bench.places import Place
from bench.queues import from_every_slot
from bench.settings import Settings
from bench.spans import Found, Meter
from bench.work import LANE
from flowfabric import FlowFabric
from flowfabric.model.operations.lane import ListLanes
from flowfabric.model.state import Public
from flowfabric.storage.base import Commands


async def through_app(place: Place, settings: Settings) -> Found:
    """Submit call by call, then let a worker run a task that does nothing; input and result are those of the others.

    The worker's start and its stop, which waits for the last answer, are counted with the drain.
    """
    given = await place.open() if place.options else None  # an app opens a store by its URL alone
    app = FlowFabric(place.url if given is None else "", store=given)
    text = msgspec.json.decode(settings.body())["text"]
    left = settings.tasks
    ended = asyncio.Event()

    @app.task(lane=LANE)
    async def bench(text: str) -> dict[str, str]:  # noqa: ARG001 - it takes the payload, as real ones do
        nonlocal left
        left -= 1
        if not left:
            ended.set()
        return {}

    async with app:
        meter = Meter(place)
        await from_every_slot(lambda: app.submit(bench, text), settings)
        submitted = meter.stop()
        meter = Meter(place)
        async with app.worker(concurrency=settings.slots, prefetch=settings.prefetch) as runtime:
            await ended.wait()
            await runtime.stop()
            drained = meter.stop()
    store = given or await place.open()
    assert await completed(store) == settings.tasks
    await store.close()
    return Found(settings.tasks, submitted, drained)


async def completed(store: Commands) -> int:
    """Return how many executions of the lane have completed."""
    lanes = await store.read(ListLanes())
    return next(dict(lane.counts).get(Public.COMPLETED, 0) for lane in lanes if lane.lane_id == LANE)
