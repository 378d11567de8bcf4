"""Scenario 5: work that needs one of ten sets of capabilities, and four workers for each set."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator

from bench.measures import median, quantile
from bench.places import Place, fresh
from bench.settings import Report, Settings
from bench.spans import Meter
from bench.work import claim_of, creation, run_loop
from flowfabric.model.operations.finish import Complete
from flowfabric.storage.base import Upkeep

SETS = 10
WORKERS = 4


def capabilities(number: int) -> tuple[str, ...]:
    """Return the capabilities of a set; all sets have one in common."""
    return ("bench", f"model-{number}", f"region-{number}")


async def submit(store: Upkeep, settings: Settings) -> dict[str, int]:
    """Submit for each set in turn; return which execution belongs to which set."""
    body = settings.body()
    policies = [
        json.dumps({"routing_requirements": {"required_capabilities": capabilities(number)}}).encode()
        for number in range(SETS)
    ]
    belongs: dict[str, int] = {}

    async def submitter(numbers: Iterator[int]) -> None:
        for number in numbers:
            created = await store.apply(creation(store, body, policy=policies[number % SETS]))
            belongs[created.execution_id] = number % SETS

    numbers = iter(range(settings.tasks))
    await asyncio.gather(*(submitter(numbers) for _ in range(settings.slots)))
    return belongs


async def once(place: Place, settings: Settings) -> Report:
    """Drain with all workers at once; each claims one task at a time."""
    store = await place.open()
    meter = Meter(place)
    belongs = await submit(store, settings)
    waits: list[float] = []
    wrong = done = 0

    async def work(number: int, name: str) -> None:
        nonlocal wrong, done
        while True:
            begin = time.perf_counter()
            tasks = (await store.apply(claim_of(name, capabilities=capabilities(number)))).tasks
            if not tasks:
                return
            waits.append((time.perf_counter() - begin) * 1000)
            (task,) = tasks
            wrong += belongs[task.execution_id] != number
            await store.apply(Complete(execution_id=task.execution_id, fence=task.fence, result=b"{}"))
            done += 1

    begin = time.perf_counter()
    await asyncio.gather(*(work(n, f"s5-{n}-{k}") for n in range(SETS) for k in range(WORKERS)))
    took = time.perf_counter() - begin
    cost = meter.stop().cost(settings.tasks)
    await store.close()
    assert done == settings.tasks, f"{done} of {settings.tasks} were claimed"
    waits.sort()
    return {
        "claims_per_s": round(done / took),
        "wait_p50_ms": round(quantile(waits, 0.5), 3),
        "wait_p99_ms": round(quantile(waits, 0.99), 3),
        "wrong_claims": wrong,
        **cost,
    }


def run(settings: Settings) -> Report:
    """Run several times on fresh stores; report the median of each number and the sum of wrong claims."""
    runs = []
    for _ in range(settings.runs):
        with fresh(settings) as place:
            runs.append(run_loop(once(place, settings)))
    middle = {name: median([found[name] for found in runs]) for name in runs[0]}
    return middle | {"wrong_claims": sum(found["wrong_claims"] for found in runs), "runs": runs}
