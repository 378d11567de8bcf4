"""Scenario 3: many workers hold long tasks under short leases; no lease may be lost."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from bench.measures import client_cpu_seconds, quantile
from bench.places import Place, fresh
from bench.servers import server_cpu_seconds
from bench.settings import Report, Settings
from bench.work import claim_of, creation, run_loop
from flowfabric.engine import Engine, claim_when_ready
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.finish import Complete
from flowfabric.model.operations.lease import Renew
from flowfabric.storage.base import Commands

TASK_SECONDS = 5.0
LEASE_MS = 3_000
RENEW_SECONDS = LEASE_MS / 3_000


class Holder:
    """A worker that claims, renews and completes tasks until the time is over."""

    def __init__(self, store: Commands, counts: Counter[str], times: list[float]) -> None:
        self._store = store
        self._counts = counts
        self._times = times

    async def work(self, name: str, end: float) -> None:
        """Hold one task after another."""
        while (left := end - time.monotonic()) > 0:
            claim = claim_of(name, lease_ttl_ms=LEASE_MS)
            for task in (await claim_when_ready(self._store, claim, int(left * 1000))).tasks:
                try:
                    await self._hold(task)
                except FlowFabricError:
                    self._counts["lost"] += 1
                else:
                    self._counts["done"] += 1

    async def _hold(self, task: Task) -> None:
        # What another worker has lost comes back as a later attempt.
        self._counts["again"] += task.attempt_index > 0
        begin = time.monotonic()
        renewals = 0
        while (left := begin + TASK_SECONDS - time.monotonic()) > 0:
            renewals += 1
            await asyncio.sleep(min(left, begin + renewals * RENEW_SECONDS - time.monotonic()))
            if time.monotonic() < begin + TASK_SECONDS:
                await self._renew(task)
        await self._store.apply(Complete(execution_id=task.execution_id, fence=task.fence, result=b"{}"))

    async def _renew(self, task: Task) -> None:
        begin = time.perf_counter()
        await self._store.apply(
            Renew(execution_id=task.execution_id, fence=task.fence, lease_ttl_ms=LEASE_MS)
        )
        self._times.append((time.perf_counter() - begin) * 1000)


async def hold(place: Place, settings: Settings) -> Report:
    """Run all workers at once, with an engine that would expire any lease that is not renewed."""
    store = await place.open()
    counts: Counter[str] = Counter()
    times: list[float] = []
    wanted = int(settings.slots * (settings.seconds / TASK_SECONDS + 2))
    await store.apply_many([creation(store, settings.body()) for _ in range(wanted)])
    async with Engine(store):
        begin, client, server = time.monotonic(), client_cpu_seconds(), server_cpu_seconds(place.url)
        end = begin + settings.seconds
        await asyncio.gather(
            *(Holder(store, counts, times).work(f"s3-{n}", end) for n in range(settings.slots))
        )
        took = time.monotonic() - begin  # the last tasks are held to their ends
        client, server = client_cpu_seconds() - client, server_cpu_seconds(place.url) - server
    await store.close()
    ordered = sorted(times)
    return {
        "renewals_per_s": round(len(times) / took, 1),
        "lost_leases": counts["lost"] + counts["again"],
        "completed": counts["done"],
        "seconds": round(took, 1),
        "renew_p50_ms": round(quantile(ordered, 0.5), 3),
        "renew_p99_ms": round(quantile(ordered, 0.99), 3),
        "client_cpu_percent": round(100 * client / took, 1),
        "server_cpu_percent": round(100 * server / took, 1),
    }


def run(settings: Settings) -> Report:
    """Run once, for the given duration."""
    with fresh(settings) as place:
        return run_loop(hold(place, settings))
