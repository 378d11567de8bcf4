"""How much memory a process takes that has very many executions waiting in its file."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

from bench.s1 import drain
from bench.settings import Report, Settings
from bench.work import creation, run_loop
from flowfabric.storage.sqlite import SqliteStore

WAITING = 100_000
BATCH = 500


def resident_mb() -> float:
    """Megabytes of memory that this process has touched and keeps."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def run(settings: Settings) -> Report:
    """Submit very many, claim and complete some, and look."""
    folder = Path(tempfile.mkdtemp(prefix="ff-bench-"))

    async def main() -> Report:
        before = resident_mb()
        store = await SqliteStore.open(folder / "memory.db")
        body = settings.body()
        for _ in range(WAITING // BATCH):
            await store.apply_many([creation(store, body) for _ in range(BATCH)])
        waiting = resident_mb()
        done = await asyncio.wait_for(drain(store, settings.slots, "m"), None) if settings.tasks == 0 else 0
        await store.close()
        return {
            "waiting": WAITING, "rss_before_mb": round(before, 1), "rss_mb": round(waiting, 1), "drained": done,
        }  # fmt: skip

    try:
        report: Report = run_loop(main())
    finally:
        shutil.rmtree(folder)
    return report
