"""Scenario 2: claim, suspend on a signal, deliver it, claim what was resumed, complete; one at a time."""

from __future__ import annotations

import asyncio
import time

from bench.measures import median, quantile
from bench.places import Place, fresh
from bench.settings import Report, Settings
from bench.spans import Meter
from bench.waits import deliver, suspend
from bench.work import claim_of, creation, run_loop
from flowfabric.engine import claim_when_ready
from flowfabric.model.operations.finish import Complete
from flowfabric.storage.base import Commands

ASLEEP_SECONDS = 0.003
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


async def one_round(worker: Commands, sender: Commands, body: bytes) -> tuple[float, float]:
    """Return the milliseconds from the delivery to the resumed claim, and of the whole round."""
    created = await sender.apply(creation(sender, body))
    begin = time.perf_counter()
    (task,) = (await worker.apply(claim_of("s2"))).tasks
    assert task.execution_id == created.execution_id
    suspended = await worker.apply(suspend(task, 1))
    before = time.perf_counter() - begin
    waiting = asyncio.ensure_future(claim_when_ready(worker, claim_of("s2"), 10_000))
    await asyncio.sleep(
        ASLEEP_SECONDS
    )  # the claimer has looked, found nothing, and sleeps; not part of the round
    begin = time.perf_counter()
    await sender.apply(deliver(task.execution_id, suspended))
    (resumed,) = (await waiting).tasks
    between = time.perf_counter() - begin
    assert resumed.execution_id == task.execution_id
    await worker.apply(Complete(execution_id=resumed.execution_id, fence=resumed.fence, result=b"{}"))
    after = time.perf_counter() - begin
    return between * 1000, (before + after) * 1000


async def rounds(place: Place, settings: Settings) -> Report:
    """Run all rounds; the sender and the waiting worker have separate connections."""
    worker, sender = await place.open(), await place.open()
    body = settings.body()
    meter = Meter(place)
    times = [await one_round(worker, sender, body) for _ in range(settings.tasks)]
    cost = meter.stop().cost(settings.tasks)
    await worker.close()
    await sender.close()
    resumed, whole = (sorted(column) for column in zip(*times, strict=True))
    latencies = {
        f"{name}_{label}_ms": round(quantile(values, share), 3)
        for name, values in (("resumed", resumed), ("round", whole))
        for label, share in QUANTILES.items()
    }
    return latencies | cost


def run(settings: Settings) -> Report:
    """Run several times on fresh stores; report the median of each number."""
    runs = []
    for _ in range(settings.runs):
        with fresh(settings) as place:
            runs.append(run_loop(rounds(place, settings)))
    return {name: median([found[name] for found in runs]) for name in runs[0]} | {"runs": runs}
