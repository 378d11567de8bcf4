"""The person before `ff dev`: a letter for what only it can do, else any other command of `ff`, on its store."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shlex
import sys
import threading
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from flowfabric.cli.asking import Questions
from flowfabric.cli.desk import short_id
from flowfabric.cli.dev_worker import DevWorker
from flowfabric.cli.screen import Screen
from flowfabric.model.operations.read_list import ListExecutions
from flowfabric.model.state import TERMINAL_STATES, Public
from flowfabric.storage.base import Commands

TAG: Final = "ff-dev"
"""Marks what `ff dev` submits by itself."""
UNFINISHED: Final = tuple(state for state in Public if state not in TERMINAL_STATES)


def program() -> str:
    """How this command was called, for lines that are typed in the same folder."""
    return sys.argv[0] if Path(sys.argv[0]).name == "ff" else "ff"


class Terminal:
    """Does what is typed."""

    def __init__(
        self,
        store: Commands,
        worker: DevWorker,
        questions: Questions,
        screen: Screen,
        url: str,
        submit: str,
        ready: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = store
        self._worker = worker
        self._questions = questions
        self._screen = screen
        self._environ = {**os.environ, "FF_STORE": url}
        self._submit = submit
        self._tag = (TAG, hashlib.sha256(submit.encode()).hexdigest()[:12])
        """By which what `submit` has made is found again."""
        self._ready = ready
        self._commands: set[asyncio.Task[None]] = set()

    def invitation(self, store: str, address: str) -> str:
        """Say how work gets here."""
        if self._submit:
            return (
                f"s submits once more: {self._submit}; type any other command of ff, too: ps, inspect ID, …"
            )
        elsewhere = f" --store {address}" if store else ""
        line = f"{program()} submit KIND NAME=VALUE{elsewhere}"
        return f"type submit KIND NAME=VALUE, or any other command of ff; in another terminal: {line}"

    async def run(self) -> None:
        """Obey until `q`."""
        if self._submit:
            self._run(self._submit_first())
        async for line in typed():
            self._screen.open = False  # Enter has ended it
            if line == "q":
                return
            self._obey(line)
        self._screen.paragraph(
            f"nothing can be typed here: `kill -9` of a worker's process shows the same, `kill {os.getpid()}` ends; "
            f"every command works from another terminal"
        )
        await asyncio.Event().wait()

    def _obey(self, line: str) -> None:
        last = self._questions.last
        if line == "k":
            self._run(self._kill())
        elif line == "r":
            self._worker.restart("asked to")
        elif line in {"a", "n"} and not last:
            self._screen.line("nothing asks for an answer now")
        elif line in {"a", "n"}:
            self._start(f"approve {short_id(last)} --as you" + (" --reject" if line == "n" else ""))
        elif line == "s" and self._submit:
            self._run(self._submit_once())
        elif line:
            self._start(line)
        else:
            self._stop()

    async def _submit_first(self) -> None:
        """Submit when the worker has published its tasks, so that their options hold; not if the same still waits."""
        page = await self._store.read(ListExecutions(tags=(self._tag,), states=UNFINISHED, limit=1))
        if page.runs:
            run = page.runs[0]
            self._screen.paragraph(
                f"not submitted again: {self._submit}, because {short_id(run.execution_id)} from before is still "
                f"{run.public_state}; s submits it once more"
            )
            return
        await self._ready()
        await self._submit_once()

    async def _submit_once(self) -> None:
        await self._command(f"submit {self._submit}", "--tag", "=".join(self._tag))

    async def _kill(self) -> None:
        if not self._worker.runs:
            self._screen.line("no worker runs now; r and Enter starts one")
            return
        if not (await self._store.read(ListExecutions(states=(Public.ACTIVE,), limit=1))).runs:
            self._screen.paragraph(
                "nothing runs now: the worker is killed, but it had no work that another could take over"
            )
        self._worker.kill()

    def _start(self, line: str) -> None:
        self._run(self._command(line))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._commands.add(task)
        task.add_done_callback(self._commands.discard)

    async def _command(self, line: str, *more: str) -> None:
        try:
            words = shlex.split(line)
        except ValueError as error:
            self._screen.line(f"ff: {error}")
            return
        self._screen.paragraph(f"$ ff {line.removeprefix('ff ')}", "dim")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "flowfabric.cli", *words[words[:1] == ["ff"] :], *more,
            env=self._environ, stdin=DEVNULL, stdout=self._screen.out,
        )  # fmt: skip
        await _to_its_end(process)

    def _stop(self) -> None:
        """Stop commands that go on, as `tail --follow` does."""
        for task in self._commands:
            task.cancel()

    async def end(self) -> None:
        """Stop the commands that still run."""
        self._stop()
        await asyncio.gather(*self._commands, return_exceptions=True)


async def _to_its_end(process: Process) -> None:
    try:
        await process.wait()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise


async def typed() -> AsyncIterator[str]:
    """What is typed, line by line, until nothing more can come."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str | None] = asyncio.Queue()

    def read() -> None:
        # A thread that reads the descriptor itself: asyncio would make a terminal non-blocking for everybody who
        # writes to it, and a buffered reader could not be left behind at the end.
        rest = b""
        with suppress(OSError, RuntimeError):  # there is no standard input, or the loop has ended
            while data := os.read(0, 4096):
                *whole, rest = (rest + data).split(b"\n")
                for line in whole:
                    loop.call_soon_threadsafe(lines.put_nowait, line.decode("utf-8", "replace").strip())
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=read, daemon=True).start()
    while (line := await lines.get()) is not None:
        yield line
