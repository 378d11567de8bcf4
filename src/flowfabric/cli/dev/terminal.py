"""The prompt of `ff dev`: single letters for its own commands, and every command of `ff` on its store."""

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

from flowfabric.cli.dev.questions import OpenQuestions
from flowfabric.cli.dev.worker import DevWorker
from flowfabric.cli.support.output import Output
from flowfabric.cli.support.text import short_id
from flowfabric.model.operations.read_list import ListExecutions
from flowfabric.model.state import TERMINAL_STATES, Public
from flowfabric.storage.base import Commands

TAG: Final = "ff-dev"
"""The tag of executions that `--submit` has created."""
UNFINISHED: Final = tuple(state for state in Public if state not in TERMINAL_STATES)


def program_name() -> str:
    """Return the path by which `ff` was called, for commands that are typed in the same folder."""
    return sys.argv[0] if Path(sys.argv[0]).name == "ff" else "ff"


class Terminal:
    """Reads commands and runs them."""

    def __init__(
        self,
        store: Commands,
        worker: DevWorker,
        questions: OpenQuestions,
        output: Output,
        url: str,
        submit: str,
        ready: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = store
        self._worker = worker
        self._questions = questions
        self._output = output
        self._environ = {**os.environ, "FF_STORE": url}
        self._submit = submit
        self._tag = (TAG, hashlib.sha256(submit.encode()).hexdigest()[:12])
        """Identifies the executions of this very `--submit`."""
        self._ready = ready
        self._commands: set[asyncio.Task[None]] = set()

    def invitation(self, store: str, address: str) -> str:
        """Return a line that says how to submit work."""
        if self._submit:
            return (
                f"s submits once more: {self._submit}; type any other command of ff, too: ps, inspect ID, …"
            )
        elsewhere = f" --store {address}" if store else ""
        line = f"{program_name()} submit KIND NAME=VALUE{elsewhere}"
        return f"type submit KIND NAME=VALUE, or any other command of ff; in another terminal: {line}"

    async def run(self) -> None:
        """Run commands until `q`."""
        if self._submit:
            self._spawn(self._submit_first())
        async for line in read_lines():
            self._output.is_line_open = False  # Enter has ended the line
            if line == "q":
                return
            self._run_line(line)
        self._output.paragraph(
            f"nothing can be typed here: `kill -9` of a worker's process shows the same, `kill {os.getpid()}` ends; "
            f"every command works from another terminal"
        )
        await asyncio.Event().wait()

    def _run_line(self, line: str) -> None:
        last = self._questions.last
        if line == "k":
            self._spawn(self._kill())
        elif line == "r":
            self._worker.restart("as requested")
        elif line in {"a", "n"} and not last:
            self._output.line("nothing asks for an answer now")
        elif line in {"a", "n"}:
            self._run_command(f"approve {short_id(last)} --as you" + (" --reject" if line == "n" else ""))
        elif line == "s" and self._submit:
            self._spawn(self._submit_once())
        elif line:
            self._run_command(line)
        else:
            self._stop()

    async def _submit_first(self) -> None:
        """Submit once the worker has published its tasks, so that their options apply.

        An execution of an earlier start that has not ended is not submitted again.
        """
        page = await self._store.read(ListExecutions(tags=(self._tag,), states=UNFINISHED, limit=1))
        if page.runs:
            run = page.runs[0]
            self._output.paragraph(
                f"not submitted again: {self._submit}, because {short_id(run.execution_id)} from before is still "
                f"{run.public_state}; s submits it once more"
            )
            return
        await self._ready()
        await self._submit_once()

    async def _submit_once(self) -> None:
        await self._command(f"submit {self._submit}", "--tag", "=".join(self._tag))

    async def _kill(self) -> None:
        if not self._worker.is_running:
            self._output.line("no worker runs now; r and Enter starts one")
            return
        if not (await self._store.read(ListExecutions(states=(Public.ACTIVE,), limit=1))).runs:
            self._output.paragraph(
                "nothing runs now: the worker is killed, but it had no work that another could take over"
            )
        self._worker.kill()

    def _run_command(self, line: str) -> None:
        self._spawn(self._command(line))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._commands.add(task)
        task.add_done_callback(self._commands.discard)

    async def _command(self, line: str, *more: str) -> None:
        try:
            words = shlex.split(line)
        except ValueError as error:
            self._output.line(f"ff: {error}")
            return
        self._output.paragraph(f"$ ff {line.removeprefix('ff ')}", "dim")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "flowfabric.cli",
            *words[words[:1] == ["ff"] :],
            *more,
            env=self._environ,
            stdin=DEVNULL,
            stdout=self._output.stream,
        )
        await _wait_or_kill(process)

    def _stop(self) -> None:
        """Stop running commands, such as `tail --follow`."""
        for task in self._commands:
            task.cancel()

    async def end(self) -> None:
        """Stop running commands, and wait for their end."""
        self._stop()
        await asyncio.gather(*self._commands, return_exceptions=True)


async def _wait_or_kill(process: Process) -> None:
    try:
        await process.wait()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise


async def read_lines() -> AsyncIterator[str]:
    """Yield the lines of standard input until its end."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str | None] = asyncio.Queue()

    def read() -> None:
        # A thread reads the descriptor itself: asyncio would make the terminal non-blocking for every process that
        # writes to it, and a buffered reader would block the end of the interpreter.
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
