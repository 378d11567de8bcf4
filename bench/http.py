"""Measure the server: submit, batches, state, claim and complete, compared with a bare route."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any
from urllib.parse import quote

import aiohttp

from bench.measures import median, process_cpu_seconds, quantile
from bench.places import Place, fresh
from bench.settings import Report, Settings
from bench.spans import Meter
from bench.work import run_loop
from flowfabric.testing.servers import free_port

CONNECTIONS = 64
BATCH = 100
CLAIM = 16
STATES = 3_000


@contextlib.contextmanager
def process(*command: str) -> Iterator[int]:
    """Run a server and give its process ID; a server on Valkey needs a secret."""
    surroundings = {**os.environ, "FF_WAITPOINT_HMAC_SECRET": secrets.token_hex(32)}
    child = subprocess.Popen([sys.executable, *command], env=surroundings)
    try:
        yield child.pid
    finally:
        child.terminate()
        child.wait(30)


@contextlib.asynccontextmanager
async def client(port: int) -> AsyncIterator[aiohttp.ClientSession]:
    """Wait until a server is up, and open a pool of connections to it."""
    base = f"http://127.0.0.1:{port}"
    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    async with aiohttp.ClientSession(base, connector=connector) as session:
        for _ in range(200):
            with contextlib.suppress(aiohttp.ClientError):
                await session.get("/healthz")
                break
            await asyncio.sleep(0.05)
        yield session


async def rate(count: int, work: Callable[[], Awaitable[Any]]) -> tuple[float, list[float]]:
    """Call `work` many times over all connections; return calls per second and each call's milliseconds."""
    numbers = iter(range(count))
    times: list[float] = []

    async def one() -> None:
        for _ in numbers:
            begin = time.perf_counter()
            await work()
            times.append((time.perf_counter() - begin) * 1000)

    begin = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(CONNECTIONS)))
    return count / (time.perf_counter() - begin), sorted(times)


class ServerMeter:
    """Measures the processor time of the load generator, the HTTP server and the Valkey servers."""

    def __init__(self, place: Place, pid: int) -> None:
        self._pid = pid
        self._served = process_cpu_seconds(pid)
        self._meter = Meter(place)

    def cost(self, requests: int) -> Report:
        """Return microseconds per request since the meter was created."""
        served = process_cpu_seconds(self._pid) - self._served
        found = self._meter.stop().cost(requests)
        server_us = round(served / requests * 1e6, 1)
        return {"client_us": found["client_us"], "server_us": server_us, "valkey_us": found["server_us"]}


async def measure(place: Place, pid: int, port: int, bare_port: int, settings: Settings) -> Report:
    """Measure every route under load; `pid` is the process of the server."""
    submission = {"kind": "bench", "lane": "bench", "input": {"text": "x" * max(0, settings.payload - 11)}}
    ids: list[str] = []
    async with client(port) as api, client(bare_port) as bare:

        async def submit() -> None:
            async with api.post("/v1/submit", json=submission) as answer:
                ids.append((await answer.json())["execution_id"])

        async def submit_bare() -> None:
            async with bare.post("/v1/submit", json=submission) as answer:
                await answer.read()

        async def batch() -> None:
            async with api.post("/v1/submit/batch", json={"items": [submission] * BATCH}) as answer:
                await answer.read()

        async def state() -> None:
            async with api.get(f"/v1/executions/{quote(ids[0])}/state") as answer:
                await answer.read()

        ceiling, _ = await rate(settings.tasks, submit_bare)
        meter = ServerMeter(place, pid)
        submitted, submit_times = await rate(settings.tasks, submit)
        batches, _ = await rate(settings.tasks // BATCH, batch)
        states, state_times = await rate(STATES, state)
        drained, drain_requests = await drain(api)
        cost = meter.cost(settings.tasks + settings.tasks // BATCH + STATES + drain_requests)
    return {
        "submit_per_s": round(submitted),
        "batch_items_per_s": round(batches * BATCH),
        "state_per_s": round(states),
        "drain_per_s": round(drained),
        "ceiling_submit_per_s": round(ceiling),
        "ratio": round(submitted / ceiling, 3),
        "submit_p50_ms": round(quantile(submit_times, 0.5), 3),
        "submit_p99_ms": round(quantile(submit_times, 0.99), 3),
        "state_p50_ms": round(quantile(state_times, 0.5), 3),
        "state_p99_ms": round(quantile(state_times, 0.99), 3),
        **cost,
    }


async def drain(api: aiohttp.ClientSession) -> tuple[float, int]:
    """Claim in batches and complete each task until nothing is left; return tasks per second and requests."""
    done = claims = 0

    async def worker(number: int) -> None:
        nonlocal done, claims
        body = {"worker_instance_id": f"bench-{number}", "lanes": ["bench"], "max_tasks": CLAIM}
        while True:
            async with api.post("/v1/workers/bench/tasks", json=body) as answer:
                tasks = (await answer.json())["tasks"]
            claims += 1
            if not tasks:
                return
            await asyncio.gather(*(complete(task) for task in tasks))
            done += len(tasks)

    async def complete(task: dict[str, Any]) -> None:
        path = f"/v1/executions/{quote(task['execution_id'])}/complete"
        async with api.post(path, json={"fence": task["fence"], "result": {}}) as answer:
            assert answer.status == 200, await answer.text()

    begin = time.perf_counter()
    await asyncio.gather(*(worker(number) for number in range(4)))
    return done / (time.perf_counter() - begin), claims + done


def run(settings: Settings) -> Report:
    """Run several times on fresh servers; report the median of each number."""
    found: list[Report] = []
    for _ in range(settings.runs):
        with fresh(settings) as place:
            port, bare_port = free_port(), free_port()
            server = ("-m", "flowfabric.cli", "server", "--store", place.url, "--listen", f"127.0.0.1:{port}")
            with process(*server) as pid, process("-m", "bench.bare_route", str(bare_port)):
                found.append(run_loop(measure(place, pid, port, bare_port, settings)))
    return {name: round(median([each[name] for each in found]), 3) for name in found[0]} | {"runs": found}
