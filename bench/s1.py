"""Scenario 1: submit everything, then claim and complete with a fixed number of slots."""

from __future__ import annotations

import asyncio
import multiprocessing
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import ceiling
from bench.measures import median
from bench.settings import Rates, Report, Settings
from bench.work import claim_of, creation, run_loop
from flowfabric.engine.waiting import claim_when_ready
from flowfabric.model.contracts.lease import Complete, Completed, Task
from flowfabric.storage.base import Commands
from flowfabric.storage.sqlite import SqliteStore

IDLE_ROUNDS = 100


async def submit_all(store: Commands, settings: Settings) -> None:
    numbers = iter(range(settings.tasks))
    body = settings.body()

    async def submitter() -> None:
        for _ in numbers:
            await store.apply(creation(store, body))

    await asyncio.gather(*(submitter() for _ in range(settings.slots)))


async def drain(store: Commands, slots: int, name: str) -> int:
    """Work as a worker does.

    A slot is free when its handler has returned, so what is finished is completed in the same moment in which the
    next tasks are claimed; at most `slots` handlers run at once.
    """
    done = 0
    finished: tuple[Task, ...] = ()
    while True:
        completions = [
            Complete(execution_id=task.execution_id, fence=task.fence, result=b"{}") for task in finished
        ]
        claiming = asyncio.ensure_future(store.apply(claim_of(name, slots)))
        replies = await store.apply_many(completions)
        assert all(isinstance(reply, Completed) for reply in replies), replies
        done += len(replies)
        finished = (await claiming).tasks  # a handler that does nothing returns at once
        if not finished:
            return done


async def drain_one_by_one(store: Commands, slots: int, name: str) -> int:
    """Let every slot claim for itself, one task at a time."""

    async def slot(worker: str) -> int:
        done = 0
        while tasks := (await store.apply(claim_of(worker))).tasks:
            (task,) = tasks
            await store.apply(Complete(execution_id=task.execution_id, fence=task.fence, result=b"{}"))
            done += 1
        return done

    return sum(await asyncio.gather(*(slot(f"{name}-{n}") for n in range(slots))))


async def drain_with(store: Commands, settings: Settings, slots: int, name: str) -> int:
    """Drain in the way that the settings ask for."""
    if settings.claims == "single":
        return await drain_one_by_one(store, slots, name)
    return await drain(store, slots, name)


def drain_in_process(path: str, settings: Settings, name: str, ready: Any, go: Any, done: Any) -> None:
    async def main() -> None:
        store = await SqliteStore.open(path, synchronous=settings.synchronous)
        ready.release()
        await asyncio.to_thread(go.wait)
        count = await drain_with(store, settings, settings.slots // settings.processes, name)
        done.put((count, time.monotonic()))
        await store.close()

    run_loop(main())


def drain_in_processes(path: str, settings: Settings) -> float:
    """Let several processes drain one file; return the seconds from the start to the last completion."""
    context = multiprocessing.get_context("spawn")
    ready, go, done = context.Semaphore(0), context.Event(), context.Queue()
    workers = [
        context.Process(target=drain_in_process, args=(path, settings, f"p{n}", ready, go, done))
        for n in range(settings.processes)
    ]
    for worker in workers:
        worker.start()
    for _ in workers:
        ready.acquire()
    begin = time.monotonic()
    go.set()
    results: list[tuple[int, float]] = [done.get(timeout=300) for _ in workers]
    for worker in workers:
        worker.join()
    assert sum(count for count, _ in results) == settings.tasks
    return max(ended for _, ended in results) - begin


async def idle(store: Commands, body: bytes) -> list[float]:
    """One task at a time: submit, a waiting claimer is woken, complete; milliseconds for each round."""
    times = []
    for _ in range(IDLE_ROUNDS):
        waiting = asyncio.ensure_future(claim_when_ready(store, claim_of("idle"), 5_000))
        await asyncio.sleep(0.005)  # the claimer has looked, found nothing, and sleeps
        begin = time.perf_counter()
        await store.apply(creation(store, body))
        (task,) = (await waiting).tasks
        await store.apply(Complete(execution_id=task.execution_id, fence=task.fence))
        times.append((time.perf_counter() - begin) * 1000)
    return sorted(times)


async def engine_once(folder: Path, settings: Settings) -> tuple[Rates, list[float]]:
    path = str(folder / "engine.db")
    store = await SqliteStore.open(path, synchronous=settings.synchronous)
    begin = time.perf_counter()
    await submit_all(store, settings)
    submitted = time.perf_counter() - begin
    if settings.processes > 1:
        drained = await asyncio.to_thread(drain_in_processes, path, settings)
    else:
        begin = time.perf_counter()
        done = await drain_with(store, settings, settings.slots, "p0")
        drained = time.perf_counter() - begin
        assert done == settings.tasks
    times = await idle(store, settings.body())
    await store.close()
    tasks = settings.tasks
    return Rates(tasks / submitted, tasks / drained, tasks / (submitted + drained)), times


def run(settings: Settings) -> Report:
    """Engine and ceiling by turns, so that drift of the machine meets both alike."""
    engine: list[Rates] = []
    bare: list[Rates] = []
    p50: list[float] = []
    p99: list[float] = []
    for _ in range(settings.runs):
        folder = Path(tempfile.mkdtemp(prefix="ff-bench-"))
        try:
            bare.append(run_loop(ceiling.run(folder, settings)))
            rates, times = run_loop(engine_once(folder, settings))
        finally:
            shutil.rmtree(folder)
        engine.append(rates)
        p50.append(times[len(times) // 2])
        p99.append(times[int(len(times) * 0.99)])
    drained = median([rates.drain for rates in engine])
    top = median([rates.drain for rates in bare])
    return {
        "submit_per_s": round(median([rates.submit for rates in engine])),
        "drain_per_s": round(drained),
        "end_to_end_per_s": round(median([rates.end_to_end for rates in engine])),
        "ceiling_submit_per_s": round(median([rates.submit for rates in bare])),
        "ceiling_drain_per_s": round(top),
        "ratio": round(drained / top, 3),
        "idle_p50_ms": round(median(p50), 3),
        "idle_p99_ms": round(median(p99), 3),
        "runs": [
            {
                "submit_per_s": round(rates.submit), "drain_per_s": round(rates.drain),
                "end_to_end_per_s": round(rates.end_to_end), "ceiling_drain_per_s": round(top_rates.drain),
                "idle_p50_ms": round(half, 3), "idle_p99_ms": round(most, 3),
            }
            for rates, top_rates, half, most in zip(engine, bare, p50, p99, strict=True)
        ],
    }  # fmt: skip
