"""Starting processes that share a file, and reading what they say."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import json

HOUSE = Path(__file__).parents[3]


class Child:
    """A process that writes facts, one on each line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.facts: list[dict[str, Any]] = []
        self._heard = asyncio.Condition()
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            async with self._heard:
                self.facts.append(json.decode(line))
                self._heard.notify_all()
        async with self._heard:
            self._heard.notify_all()

    async def heard(self, count: int) -> None:
        """Wait until it has said so many facts, or has ended."""
        async with self._heard:
            await self._heard.wait_for(lambda: len(self.facts) >= count or self._reader.done())

    async def fact(self, name: str) -> dict[str, Any]:
        """Wait for a fact of that name."""
        async with self._heard:
            await self._heard.wait_for(lambda: self._find(name) or self._at_end())
        found = self._find(name)
        assert found is not None, f"{name} was never said: {self.facts}"
        return found

    def _find(self, name: str) -> dict[str, Any] | None:
        return next((fact for fact in self.facts if fact["fact"] == name), None)

    def _at_end(self) -> bool:
        return self.process.returncode is not None and self._reader.done()

    def tell(self, line: str) -> None:
        """Write a line to it."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())

    async def kill(self) -> list[dict[str, Any]]:
        """End it in the middle of whatever it does; return all that it had said."""
        if self.process.returncode is None:
            self.process.kill()
        return await self.end()

    async def end(self) -> list[dict[str, Any]]:
        """Wait for its end and return all that it said."""
        await self._reader
        await self.process.wait()
        return self.facts


async def start(module: str, *arguments: str) -> Child:
    """Start a module of `support.chaos` in a process of its own."""
    paths = [str(HOUSE / "src"), str(HOUSE / "tests"), os.environ.get("PYTHONPATH", "")]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        f"support.chaos.{module}",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )
    return Child(process)


@asynccontextmanager
async def family() -> AsyncIterator[list[Child]]:
    """A list of children, none of whom survives the test."""
    children: list[Child] = []
    try:
        yield children
    finally:
        for child in children:
            await child.kill()
