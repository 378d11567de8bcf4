"""Measure memory: of the server per execution, or of a process with a large SQLite file."""

from __future__ import annotations

from pathlib import Path

from bench.places import Place, fresh
from bench.queues import EngineQueue, drain_shared
from bench.servers import server_bytes
from bench.settings import Report, Settings
from bench.work import creation, run_loop
from flowfabric.model.errors import FlowFabricError
from flowfabric.storage.base import Upkeep

BATCH = 500


def resident_mb() -> float:
    """Return the resident memory of this process, in megabytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return round(int(line.split()[1]) / 1024, 1)


async def submit(store: Upkeep, settings: Settings) -> None:
    body = settings.body()
    for begin in range(0, settings.tasks, BATCH):
        count = min(BATCH, settings.tasks - begin)
        replies = await store.apply_many([creation(store, body) for _ in range(count)])
        assert not any(isinstance(reply, FlowFabricError) for reply in replies), replies


async def of_process(place: Place, settings: Settings) -> Report:
    """Measure this process with a store that holds very many executions."""
    before = resident_mb()
    store = await place.open()
    await submit(store, settings)
    found = {"waiting": settings.tasks, "rss_before_mb": before, "rss_mb": resident_mb()}
    await store.close()
    return found


async def of_server(place: Place, settings: Settings) -> Report:
    """Measure the server with all executions waiting, then with all finished, beyond their payloads."""
    store = await place.open()
    empty = server_bytes(place.url)
    await submit(store, settings)
    waiting = server_bytes(place.url)
    done = await drain_shared(EngineQueue(store), settings.slots, "m")
    finished = server_bytes(place.url)
    await store.close()
    assert done == settings.tasks
    payload = len(settings.body())
    return {
        "bytes_waiting": round((waiting - empty) / done - payload),
        "bytes_finished": round((finished - empty) / done - payload),
    }


def run(settings: Settings) -> Report:
    """Run once: memory does not depend on other programs on the machine."""
    with fresh(settings) as place:
        return run_loop((of_process if settings.store == "sqlite" else of_server)(place, settings))
