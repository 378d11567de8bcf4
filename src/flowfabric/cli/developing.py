"""What `ff dev` does: keeps a worker running, looks at files and keys, and tells what happens."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, suppress
from typing import Final

from flowfabric.cli.demo import served
from flowfabric.cli.desk import partitions
from flowfabric.cli.exits import Exit, Refused
from flowfabric.cli.narrator import Narrator
from flowfabric.cli.screen import Screen
from flowfabric.storage import open_store
from flowfabric.storage.resolve import make_folder, store_url, without_password

LOOK_SECONDS: Final = 0.5
"""How often files are looked at: there is no way to be told that works everywhere."""
KEYS: Final = "k kills the worker (-9), r starts it anew, q or Ctrl-C ends; each with Enter"
NAME: Final = "dev"
LEASE: Final = "3s"
"""Short, so that nobody has to wait long for the work of a worker that was killed."""


async def develop(target: str, store: str, listen: str) -> int:
    """Serve, work and tell until told to stop."""
    url = store_url(store)
    if url.startswith("http"):
        raise Refused("ff dev brings a server of its own: name a store, not a server", Exit.USAGE)
    screen = Screen()
    async with AsyncExitStack() as stack:
        make_folder(url)
        opened = await open_store(url, partitions=partitions())
        stack.push_async_callback(opened.close)
        address = await stack.enter_async_context(served(opened, url, listen))
        narrator = Narrator(opened, screen)
        narrator.follow_all = True
        await narrator.skip()
        worker = Worker(target, url, screen)
        stack.push_async_callback(worker.end)
        screen.line(f"{address} serves {without_password(url)}, a worker runs {target}")
        screen.line(f"FF_STORE={address} ff submit KIND NAME=VALUE submits, in another terminal")
        screen.line(screen.paint(KEYS, "dim"))
        async with asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(work) for work in (narrator.run(), worker.keep(), _watch(worker))]
            async for key in _keys():
                if key == "q":
                    break
                await worker.press(key)
            for task in background:
                task.cancel()
    return 0


class Worker:
    """One worker process at a time."""

    def __init__(self, target: str, url: str, screen: Screen) -> None:
        self._target = target
        self._url = url
        self._screen = screen
        self._process: Process | None = None
        self._again = asyncio.Event()

    async def keep(self) -> None:
        """Start the worker, and again whenever that is wanted; one that ends by itself waits for a change."""
        while True:
            self._again.clear()
            self._process = process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "flowfabric.cli", "worker", self._target, "--store", self._url,
                "--name", NAME, "--lease", LEASE, "--grace", "1s", "--no-engine", "--log-level", "warning",
                "--while-read",
                stdin=asyncio.subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
            code = await process.wait()
            if not self._again.is_set():
                self._screen.line(
                    self._screen.paint(f"the worker ended with {code}; a change or r starts it anew", "red")
                )
            await self._again.wait()

    async def press(self, key: str) -> None:
        """Do what a key says."""
        process = self._process
        if key == "k" and process is not None and process.returncode is None:
            self._screen.line(
                self._screen.paint(f"killed the worker (process {process.pid}); another one starts", "red")
            )
            self._again.set()
            process.kill()
        elif key == "r":
            self.restart("asked to")

    def restart(self, why: str) -> None:
        """Let the worker end and another one begin."""
        self._screen.line(self._screen.paint(f"the worker starts anew: {why}", "yellow"))
        self._again.set()
        self._stop()

    def _stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.terminate()

    async def end(self) -> None:
        """Stop it for good."""
        self._stop()
        if self._process is not None:
            await self._process.wait()


async def _watch(worker: Worker) -> None:
    """Start the worker anew when a file with code has changed."""
    seen = await asyncio.to_thread(_stamps)
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        now = await asyncio.to_thread(_stamps)
        changed = sorted(path for path in seen.keys() | now.keys() if seen.get(path) != now.get(path))
        if changed:
            worker.restart(f"{changed[0]} has changed" + (" and others" if changed[1:] else ""))
        seen = now


def _stamps() -> dict[str, int]:
    return dict(_files(""))


def _files(folder: str) -> Iterator[tuple[str, int]]:
    """Every file with code below the present folder, and when it was changed."""
    with suppress(OSError), os.scandir(folder or ".") as entries:
        for entry in entries:
            name = f"{folder}{entry.name}"
            if entry.name.startswith((".", "__pycache__", "node_modules")):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _files(f"{name}/")
            elif entry.name.endswith(".py"):
                yield name, entry.stat().st_mtime_ns


async def _keys() -> AsyncIterator[str]:
    """What is typed, line by line; when nothing can be typed, wait for Ctrl-C."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    try:
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    except (OSError, ValueError):  # a file, or nothing at all
        await asyncio.Event().wait()
        return
    try:
        while line := await reader.readline():
            yield line.decode("utf-8", "replace").strip().lower()
        await asyncio.Event().wait()
    finally:
        transport.close()
