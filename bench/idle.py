"""What an idle deployment costs: statements per second of a store with its engine and one waiting worker."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench.settings import Report, Settings
from bench.work import claim_of, run_loop
from flowfabric.engine import Engine, claim_when_ready
from flowfabric.storage.sqlite import SqliteStore, connection

SECONDS = 5.0


def run(_: Settings) -> Report:
    """Count every statement that any connection runs while nothing happens."""
    seen: Counter[str] = Counter()
    connect = sqlite3.connect

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        db: sqlite3.Connection = connect(*arguments, **options)
        db.set_trace_callback(lambda statement: seen.update([statement.split("(")[0][:40]]))
        return db

    async def main() -> Report:
        server = await SqliteStore.open(folder / "idle.db")
        worker = await SqliteStore.open(folder / "idle.db")
        async with Engine(server), Engine(worker):
            waiting = asyncio.ensure_future(claim_when_ready(worker, claim_of("idle"), 60_000))
            await asyncio.sleep(2)
            seen.clear()
            begin, used = time.perf_counter(), time.process_time()
            await asyncio.sleep(SECONDS)
            took, cpu = time.perf_counter() - begin, time.process_time() - used
            statements = sum(seen.values()) / took
            waiting.cancel()
        await server.close()
        await worker.close()
        return {
            "statements_per_s": round(statements, 1), "cpu_percent": round(100 * cpu / took, 2),
            "statements": {text: round(n / took, 1) for text, n in seen.most_common()},
        }  # fmt: skip

    folder = Path(tempfile.mkdtemp(prefix="ff-bench-"))
    connection.sqlite3.connect = traced  # type: ignore[attr-defined]
    try:
        report: Report = run_loop(main())
    finally:
        connection.sqlite3.connect = connect  # type: ignore[attr-defined]
        shutil.rmtree(folder)
    return report
