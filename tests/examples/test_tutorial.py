"""The tutorial, word by word: its program and its commands, in an empty folder and one shell."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from flowfabric import FlowFabric
from support.process import started
from support.valkey import empty_server

ROOT = Path(__file__).parents[2]
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
PROGRAM = re.search(r"```python\n(.*?)```", TUTORIAL, re.DOTALL)
COMMANDS = re.findall(r"```sh\n(.*?)```", TUTORIAL, re.DOTALL)


class Shell:
    """One terminal: what is typed into it, and what it then shows."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout

    async def type(self, text: str) -> str:
        """Run some commands and return what was shown until they had ended."""
        self._in.write(f"{text}\necho the end of it\n".encode())
        await self._in.drain()
        shown = await self._out.readuntil(b"the end of it\n")
        return shown.decode().removesuffix("the end of it\n")


@asynccontextmanager
async def terminal(folder: Path) -> AsyncIterator[Shell]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("FF_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{ours['PATH']}"
    process = await asyncio.create_subprocess_exec(
        "bash",
        cwd=folder,
        env={**ours, "PATH": path, "HOME": str(folder)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield Shell(process)
    finally:
        assert process.stdin is not None
        process.stdin.write(b"kill $(jobs -p) 2>/dev/null\n")
        process.stdin.close()
        await process.wait()


async def until_suspended(store: str, run: str) -> None:
    async with FlowFabric(store) as app:
        opened = await app._core.connection.get()
        async with opened.subscribe([f"execution:{run}"]) as woken:
            while (await app.run(run).status()).state != "suspended":
                await woken.wait(5)


def test_the_program_is_that_of_the_examples() -> None:
    kept = (ROOT / "examples" / "tutorial" / "press.py").read_text(encoding="utf-8")
    assert PROGRAM is not None
    assert kept.endswith(PROGRAM[1])


@pytest.fixture(params=["sqlite", "valkey", "http"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The store that the tutorial names, and two that it could have named as well."""
    match request.param:
        case "sqlite":
            yield str(tmp_path / "press.db")
        case "valkey":
            async with empty_server() as valkey:
                yield valkey.url
        case _:
            with started(tmp_path) as server:
                await asyncio.to_thread(server.wait_until_ready)
                yield f"http://127.0.0.1:{server.port}"


@pytest.mark.timeout(120)
async def test_the_tutorial_does_what_it_says(tmp_path: Path, store: str) -> None:
    assert PROGRAM is not None
    (tmp_path / "press.py").write_text(PROGRAM[1], encoding="utf-8")
    name, submit, dies, look, works, answer, end, history, stop = COMMANDS
    async with terminal(tmp_path) as shell:
        assert "press.db" in name
        assert await shell.type(name.replace("press.db", store)) == ""
        assert "waiting" in await shell.type(submit)
        run = (await shell.type('echo "$RUN"')).strip()
        shown = await shell.type(dies)
        first, rest = shown.split("\n", 1)
        assert "takes article from default" in first
        assert rest.startswith("researching volcanoes\nwriting\n")
        assert "Killed" in shown
        assert re.search(r"article +active", await shell.type(look))

        await shell.type(works)
        await until_suspended(store, run)
        shown = await shell.type(answer)
        assert shown.count("writing\n") == 1
        assert "researching" not in shown
        assert "approve sent" in shown

        shown = await shell.type(end)
        assert "volcanoes are old, and volcanoes are hot (approve by ada)" in shown
        assert "interrupted_reclaimed" in shown
        assert "lease_expired" in shown
        assert "reclaimed" in await shell.type(history)
        await shell.type(stop)
