"""Measure an idle deployment: a server and a worker, both with an engine, and claimers that wait for work."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

from bench.places import Place, fresh
from bench.servers import addresses_of
from bench.settings import Report, Settings
from bench.work import claim_of, run_loop
from flowfabric.engine import Engine, claim_when_ready
from flowfabric.storage.sqlite import connection

SETTLE_SECONDS = 2.0


@contextlib.contextmanager
def traced_statements(seen: Counter[str]) -> Iterator[None]:
    """Count every SQL statement of every connection."""
    connect = sqlite3.connect

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        db: sqlite3.Connection = connect(*arguments, **options)
        db.set_trace_callback(lambda statement: seen.update([statement.split("(")[0][:40]]))
        return db

    connection.sqlite3.connect = traced  # type: ignore[attr-defined]
    try:
        yield
    finally:
        connection.sqlite3.connect = connect  # type: ignore[attr-defined]


@contextlib.asynccontextmanager
async def monitored_commands(address: str, seen: Counter[str]) -> AsyncIterator[None]:
    """Count every command that clients send to a server, without those inside functions."""
    host, _, port = address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=2**24)
    writer.write(b"MONITOR\r\n")
    assert await reader.readline() == b"+OK\r\n"

    async def count() -> None:
        async for line in reader:
            if (name := sent_command(line.decode("utf-8", "replace"))) is not None:
                seen[name] += 1

    counting = asyncio.create_task(count())
    try:
        yield
    finally:
        counting.cancel()
        writer.close()


def sent_command(line: str) -> str | None:
    """Return the command in a line of MONITOR, with the function that it calls; None for commands inside functions."""
    _, _, rest = line.partition("[")
    source, _, words = rest.partition("] ")
    if source.endswith(" lua"):
        return None
    parts = [word.strip('"') for word in words.split()]
    return " ".join(parts[:2]) if parts[0].upper().startswith("FCALL") else parts[0]


async def measure(place: Place, settings: Settings, claimers: int, seen: Counter[str]) -> Report:
    """Count the calls of a deployment that has nothing to do."""
    server, worker = await place.open(), await place.open()
    async with contextlib.AsyncExitStack() as stack:
        for address in addresses_of(place.url):
            await stack.enter_async_context(monitored_commands(address, seen))
        await stack.enter_async_context(Engine(server))
        await stack.enter_async_context(Engine(worker))
        waiting = [
            asyncio.ensure_future(claim_when_ready(worker, claim_of(f"idle-{n}"), 600_000))
            for n in range(claimers)
        ]
        await asyncio.sleep(SETTLE_SECONDS)
        seen.clear()
        begin, used = time.perf_counter(), time.process_time()
        await asyncio.sleep(settings.seconds)
        took, cpu = time.perf_counter() - begin, time.process_time() - used
        counts = dict(seen.most_common())
        for claimer in waiting:
            claimer.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    await server.close()
    await worker.close()
    return {
        "waiting": claimers,
        "calls_per_s": round(sum(counts.values()) / took, 1),
        "cpu_percent": round(100 * cpu / took, 2),
        "calls": {name: round(count / took, 2) for name, count in counts.items()},
    }


def run(settings: Settings) -> Report:
    """Measure with one waiting claimer, then with one per slot."""
    found = []
    for claimers in (1, settings.slots):
        seen: Counter[str] = Counter()
        with fresh(settings) as place, contextlib.ExitStack() as stack:
            if settings.store == "sqlite":
                stack.enter_context(traced_statements(seen))
            found.append(run_loop(measure(place, settings, claimers, seen)))
    return {"calls_per_s": found[0]["calls_per_s"], "cpu_percent": found[0]["cpu_percent"], "idle": found}
