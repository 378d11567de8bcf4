"""A program with a worker whose handlers never end, which whoever started it may stop in every way there is."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from flowfabric import Context, FlowFabric, SyncContext

LEASE = "2s"
app = FlowFabric()
KINDS = (
    "on_loop",
    "in_step",
    "in_group",
    "swallows",
    "translates",
    "in_thread",
    "in_step_in_thread",
    "in_process",
)


def begun(kind: str) -> None:
    os.write(1, f"begun {kind}\n".encode())


async def forever() -> None:
    await asyncio.Event().wait()


def forever_in_thread() -> None:
    while True:
        time.sleep(0.005)  # a blocking call without end could not be interrupted


@app.task
async def on_loop() -> None:
    begun("on_loop")
    await forever()


@app.task
async def in_step(ctx: Context) -> None:
    begun("in_step")
    await ctx.step("forever", forever)


@app.task
async def in_group() -> None:
    begun("in_group")
    async with asyncio.TaskGroup() as group:
        group.create_task(forever())
        group.create_task(forever())


@app.task
async def swallows() -> str:
    """Returns when it is cancelled, as many programs do."""
    begun("swallows")
    with suppress(asyncio.CancelledError):
        await forever()
    return "unfinished"


@app.task
async def translates() -> None:
    """Raises an error of its own when it is cancelled, as some libraries do."""
    begun("translates")
    try:
        await forever()
    except asyncio.CancelledError as error:
        raise ConnectionError("the connection was closed") from error


@app.task
def in_thread() -> None:
    begun("in_thread")
    forever_in_thread()


@app.task
def in_step_in_thread(ctx: SyncContext) -> None:
    begun("in_step_in_thread")
    ctx.step("forever", forever_in_thread)


@app.task(executor="process")
def in_process() -> None:
    begun("in_process")
    threading.Event().wait()


async def fail_at(number: int) -> None:
    """Raise an error when a signal comes."""
    came = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(number, came.set)
    await came.wait()
    raise RuntimeError("another part of the program has failed")


async def beside(grace: str) -> None:
    """A worker beside other code, which ends with Ctrl-C as `asyncio.run` does."""
    async with worker(grace):
        await forever()


async def in_task_group(grace: str) -> None:
    """A worker in a group of tasks, of which another one fails."""
    async with asyncio.TaskGroup() as group:
        group.create_task(worker(grace).run())
        group.create_task(fail_at(signal.SIGUSR1))


async def around_group(grace: str) -> None:
    """A group of tasks inside `async with app.worker()`, of which one fails."""
    async with worker(grace), asyncio.TaskGroup() as group:
        group.create_task(forever())
        group.create_task(fail_at(signal.SIGUSR1))


async def cancelled(grace: str) -> None:
    """A worker on an event loop all of whose tasks are cancelled."""

    def cancel_all() -> None:
        for task in asyncio.all_tasks():
            task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, cancel_all)
    await beside(grace)


def worker(grace: str) -> Any:
    return app.worker(grace=grace, lease_ttl=LEASE, concurrency=len(KINDS))


async def run(grace: str) -> None:
    """A worker that runs until a signal ends it."""
    await worker(grace).run()


MODES = {each.__name__: each for each in (run, beside, in_task_group, around_group, cancelled)}
MAIN = """
import asyncio, sys
from support.stopped_program import MODES
asyncio.run(MODES[sys.argv[1]](sys.argv[2]))
"""


class Program:
    """Such a program, and what it says."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said = ""

    async def says(self, *texts: str) -> None:
        """Read until it has said all of this."""
        assert self.process.stdout is not None
        async with asyncio.timeout(30):
            while not all(text in self.said for text in texts):
                line = await self.process.stdout.readline()
                assert line, f"{texts} was not said: {self.said}"
                self.said += line.decode()

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    async def ended(self) -> int:
        """Wait for its end; return its exit code."""
        assert self.process.stdout is not None
        async with asyncio.timeout(20):
            self.said += (await self.process.stdout.read()).decode()
            return await self.process.wait()


@asynccontextmanager
async def started(url: str, mode: str, grace: str) -> AsyncIterator[Program]:
    """Start it, and be sure that it ends."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("FF_", "COVERAGE_"))}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        MAIN,
        mode,
        grace,
        env={**environ, "PYTHONPATH": str(Path(__file__).parent.parent), "FF_STORE": url},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield Program(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]
