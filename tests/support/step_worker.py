"""A worker as a process of its own, which whoever started it may kill: five steps, each told to a file."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from flowfabric.codecs import Signature
from flowfabric.worker import Context, Handler, Runtime, WorkerSettings

STEPS = 5


class Diary:
    """What workers did, in a file that several of them write to."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, *words: object) -> None:
        line = " ".join(map(str, words)) + "\n"
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, line.encode())
        os.close(handle)

    def lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []


def worker(url: str, diary: Diary, stop_at: int) -> Runtime:
    """A worker whose handler stands still in the middle of one step."""

    async def step(number: int) -> int:
        diary.write("begin", number)
        if number == stop_at:
            await asyncio.Event().wait()
        await asyncio.sleep(0.002)
        diary.write("end", number)
        return number

    async def work(ctx: Context) -> int:
        diary.write("run", ctx.attempt)
        return sum([await ctx.step(f"s{number}", step, number) for number in range(1, STEPS + 1)])

    settings = WorkerSettings(lease_ttl="1s", grace=0)
    handler = Handler("work", work, Signature.of(work, skip={"ctx"}), context="ctx")
    return Runtime(url, {"work": handler}, settings)


class Child:
    """Such a process, and what it says."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def ready(self) -> None:
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), 20)
        assert line == b"ready\n", line

    async def end(self, number: int = signal.SIGKILL) -> int:
        self.process.send_signal(number)
        return await asyncio.wait_for(self.process.wait(), 20)


@asynccontextmanager
async def started(url: str, diary: Diary, stop_at: int = 0) -> AsyncIterator[Child]:
    """Start a worker, and be sure that it ends."""
    here = Path(__file__).parent.parent
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "support.step_worker",
        url,
        str(diary.path),
        str(stop_at),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(here)},
    )
    try:
        yield Child(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]


async def main(url: str, path: str, stop_at: str) -> None:
    runtime = worker(url, Diary(Path(path)), int(stop_at))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await runtime.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
