"""Run a command on the store that its options name."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import time
from collections.abc import Awaitable, Callable
from typing import Any

from flowfabric.app.execution_ids import resolve_execution
from flowfabric.app.run import Run, StoreHandle
from flowfabric.cli.support.options import add_store_options
from flowfabric.cli.support.output import Output
from flowfabric.cli.support.target import open_target
from flowfabric.model.errors import NotOffered
from flowfabric.storage.base import Commands
from flowfabric.storage.resolve import store_url, without_password

Action = Callable[["CommandSession"], Awaitable[int]]
"""What a command does; it returns the exit code."""


class CommandSession:
    """The options, the open store and the output of one command."""

    def __init__(self, given: argparse.Namespace, url: str, store: Commands) -> None:
        self.given = given
        self.url = url
        self.store = store
        self.output = Output()
        self.json: bool = given.json

    def now(self) -> int:
        """Return the store's time, or this machine's if a server answers, because it does not tell its time."""
        try:
            now: int = self.store.now()  # type: ignore[attr-defined] # `Commands` has no clock; stores do
        except NotOffered:
            return time.time_ns() // 1_000_000
        return now

    def run(self, execution_id: str) -> Run[Any]:
        """Return the handle of an execution."""

        async def opened() -> Commands:
            return self.store

        return Run(StoreHandle(opened), execution_id)

    def next_command(self, line: str) -> str:
        """Return the text of another `ff` command on the same store, to be typed by the user."""
        store = self.given.store
        return f"ff {line}" + (f" --store {shlex.quote(without_password(store))}" if store else "")

    def report(self, document: Any, sentence: str) -> None:
        """Print the outcome: the document with `--json`, else the sentence."""
        if self.json:
            self.output.json(document)
        else:
            self.output.line(sentence)

    async def find(self, text: str) -> str:
        """Return the execution id for a whole id, its UUID, or the beginning of its UUID."""
        return await resolve_execution(self.store, text)


def add_store_command(
    commands: Any, name: str, about: str, action: Action, *, creates: bool = False
) -> argparse.ArgumentParser:
    """Add the parser of a command that uses a store; `creates` lets it create a file that does not exist."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=about, description=about)
    add_store_options(parser)
    parser.set_defaults(run=lambda given: asyncio.run(_run(given, action, creates=creates)))
    return parser


async def _run(given: argparse.Namespace, action: Action, *, creates: bool) -> int:
    url = store_url(given.store)
    store = await open_target(url, creates=creates)
    try:
        return await action(CommandSession(given, url, store))
    finally:
        await store.close()
