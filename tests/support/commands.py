"""`ff` beside a store that the test holds open: in a thread with a loop of its own, or in a process of its own."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple
from unittest.mock import patch

from flowfabric.cli import main


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document that it printed."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The documents that it printed, one on each line."""
        return [json.loads(line) for line in self.out.splitlines()]


class Ff:
    """Runs commands against one store."""

    def __init__(self, url: str) -> None:
        self.environ = {
            name: value for name, value in os.environ.items() if not name.startswith(("FF_", "COLUMNS"))
        } | {"FF_STORE": url}

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start a command in a process of its own."""
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "flowfabric.cli",
            *arguments,
            env=self.environ,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def __call__(self, *arguments: str, stdin: bytes = b"") -> Ended:
        """Run a command to its end."""
        return await asyncio.to_thread(self._run, arguments, stdin)

    def _run(self, arguments: tuple[str, ...], stdin: bytes) -> Ended:
        out, err = io.StringIO(), io.StringIO()
        with (
            patch.dict(os.environ, self.environ, clear=True),
            patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin))),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            try:
                code = main(arguments)
            except SystemExit as ended:  # what argparse does
                code = int(str(ended.code))
        return Ended(code, out.getvalue(), err.getvalue())

    async def json(self, *arguments: str) -> Any:
        """Run a command that ends well, and return what it printed as JSON."""
        ended = await self(*arguments, "--json")
        told = [line for line in ended.err.splitlines() if not line.startswith("note: ")]
        assert (ended.code, told) == (0, []), ended
        return ended.json
