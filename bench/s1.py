"""Scenario 1: submit everything, then claim and complete with a fixed number of slots; beside it a bare ceiling.

With `--face app` it is the boundary of the store that stands beside something: tasks of an app.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from typing import Any

from msgspec.structs import replace

from bench.ceilings import open_ceiling
from bench.face import through_app
from bench.measures import client_cpu_seconds, median, quantile
from bench.places import Place, fresh
from bench.queues import EngineQueue, Queue, drain, submit_all
from bench.servers import server_cpu_seconds
from bench.settings import Report, Settings
from bench.spans import Found, Meter, Span
from bench.work import claim_of, creation, run_loop
from flowfabric.engine.waiting import claim_when_ready
from flowfabric.model.operations.finish import Complete
from flowfabric.storage.base import Commands

IDLE_ROUNDS = 100
PROCESS_SECONDS = 600


async def open_queue(place: Place, *, bare: bool) -> Queue[Any]:
    return await open_ceiling(place) if bare else EngineQueue(await place.open())


def drain_in_process(
    place: Place, settings: Settings, bare: bool, name: str, ready: Any, go: Any, done: Any
) -> None:
    async def main() -> None:
        queue = await open_queue(place, bare=bare)
        ready.release()
        await asyncio.to_thread(go.wait)
        used = client_cpu_seconds()
        count = await drain(queue, settings, settings.slots // settings.processes, name)
        done.put((count, time.monotonic(), client_cpu_seconds() - used))
        await queue.close()

    run_loop(main())


def drain_in_processes(place: Place, settings: Settings, *, bare: bool) -> Span:
    """Drain with several processes; the time runs from their common start to the last completion."""
    context = multiprocessing.get_context("spawn")
    ready, go, done = context.Semaphore(0), context.Event(), context.Queue()
    workers = [
        context.Process(target=drain_in_process, args=(place, settings, bare, f"p{n}", ready, go, done))
        for n in range(settings.processes)
    ]
    for worker in workers:
        worker.start()
    for _ in workers:
        assert ready.acquire(timeout=PROCESS_SECONDS)
    begin, served = time.monotonic(), server_cpu_seconds(place.url)
    go.set()
    results: list[tuple[int, float, float]] = [done.get(timeout=PROCESS_SECONDS) for _ in workers]
    served = server_cpu_seconds(place.url) - served
    for worker in workers:
        worker.join()
    assert sum(count for count, _, _ in results) == settings.tasks
    return Span(max(ended for _, ended, _ in results) - begin, sum(used for _, _, used in results), served)


async def idle(store: Commands, body: bytes, rounds: int) -> list[float]:
    """Run one task at a time: submit, wake a waiting claimer, complete; return each round's milliseconds."""
    times = []
    for _ in range(rounds):
        waiting = asyncio.ensure_future(claim_when_ready(store, claim_of("idle"), 5_000))
        await asyncio.sleep(0.005)  # the claimer has looked, found nothing, and sleeps
        begin = time.perf_counter()
        await store.apply(creation(store, body))
        (task,) = (await waiting).tasks
        await store.apply(Complete(execution_id=task.execution_id, fence=task.fence))
        times.append((time.perf_counter() - begin) * 1000)
    return sorted(times)


async def once(
    place: Place, settings: Settings, *, bare: bool, idle_rounds: int = IDLE_ROUNDS
) -> tuple[Found, list[float]]:
    """Submit and drain; on the engine also measure single tasks that arrive while a claimer waits."""
    queue = await open_queue(place, bare=bare)
    meter = Meter(place)
    await submit_all(queue, settings)
    submitted = meter.stop()
    if settings.processes > 1:
        drained = await asyncio.to_thread(drain_in_processes, place, settings, bare=bare)
    else:
        meter = Meter(place)
        done = await drain(queue, settings, settings.slots, "p0")
        drained = meter.stop()
        assert done == settings.tasks
    times = await idle(queue.store, settings.body(), idle_rounds) if isinstance(queue, EngineQueue) else []
    await queue.close()
    return Found(settings.tasks, submitted, drained), times


def one_run(settings: Settings) -> Report:
    """Run ceiling and engine in turn, so that changes of the machine's speed affect both."""
    # A ceiling has one server: what a cluster costs or gains is seen beside the best that one of them can do.
    alone = replace(settings, store="valkey") if settings.store == "cluster" else settings
    with fresh(alone) as place:
        ceiling, _ = run_loop(once(place, alone, bare=True))
    with fresh(settings) as place:
        engine, times = run_loop(once(place, settings, bare=False))
    bare = ceiling.report()
    return engine.report() | {
        **{f"ceiling_{name}": value for name, value in bare.items()},
        "idle_p50_ms": round(quantile(times, 0.5), 3),
        "idle_p99_ms": round(quantile(times, 0.99), 3),
    }


def one_run_of_faces(settings: Settings) -> Report:
    """Run the bare store and the app in turn, each with a store of its own."""
    with fresh(settings) as place:
        engine, _ = run_loop(once(place, settings, bare=False, idle_rounds=0))
    with fresh(settings) as place:
        face = run_loop(through_app(place, settings))
    return engine.report() | {f"face_{name}": value for name, value in face.report().items()}


def run(settings: Settings) -> Report:
    """Run several times; report the median of each number and the ratio of the medians."""
    one = one_run_of_faces if settings.face else one_run
    runs = [one(settings) for _ in range(settings.runs)]
    middle = {name: median([found[name] for found in runs]) for name in runs[0]}
    return {**middle, **ratios(middle, settings.face), "runs": runs}


def ratios(middle: Report, face: str) -> Report:
    """Return the engine's rate relative to its ceiling, or the app's relative to the engine."""
    if not face:
        return {"ratio": round(middle["drain_per_s"] / middle["ceiling_drain_per_s"], 3)}
    store, app = (middle[f"{of}client_drain_us"] + middle[f"{of}server_drain_us"] for of in ("", "face_"))
    return {
        "face_ratio": round(middle["face_drain_per_s"] / middle["drain_per_s"], 3),
        "face_cpu_ratio": round(store / app, 3),
        "face_submit_ratio": round(middle["face_submit_per_s"] / middle["submit_per_s"], 3),
    }
