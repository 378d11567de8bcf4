"""What every command that asks a store stands on: the store that was meant, the screen, and ids that may be short."""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from flowfabric.app.execution_ids import resolve_execution
from flowfabric.app.run import Run, StoreHandle
from flowfabric.cli.exits import Exit, Refused
from flowfabric.cli.screen import Screen
from flowfabric.model.errors import NotOffered
from flowfabric.model.ids import Partitions
from flowfabric.server.variables import value_of
from flowfabric.storage import open_unseeded
from flowfabric.storage.base import Commands
from flowfabric.storage.resolve import (
    EMBEDDED,
    MEMORY,
    family,
    make_folder,
    sqlite_parts,
    store_url,
    without_password,
)

COUNTS: Final = ("FF_FLOW_PARTITIONS", "FF_BUDGET_PARTITIONS", "FF_QUOTA_PARTITIONS")
SERVER: Final = ("http", "https")
PAGE: Final = 1_000
SHOWN: Final = 13
"""So much of a UUID is shown in lists: twelve digits, so that two hardly ever look the same."""

Work = Callable[["Desk"], Awaitable[int]]


class Desk:
    """One command at work."""

    def __init__(self, given: argparse.Namespace, url: str, store: Commands) -> None:
        self.given = given
        self.url = url
        self.store = store
        self.screen = Screen()
        self.json: bool = given.json

    def now(self) -> int:
        """Return the store's time; a server does not tell it, so this machine's must do."""
        try:
            now: int = self.store.now()  # type: ignore[attr-defined] # what only asks needs no clock
        except NotOffered:
            return time.time_ns() // 1_000_000
        return now

    def run(self, execution_id: str) -> Run[Any]:
        """Return the handle of an execution."""

        async def opened() -> Commands:
            return self.store

        return Run(StoreHandle(opened), execution_id)

    def again(self, line: str) -> str:
        """Write a command of `ff` that is to be typed next, for the same store."""
        store = self.given.store
        return f"ff {line}" + (f" --store {shlex.quote(without_password(store))}" if store else "")

    def say(self, value: Any, text: str) -> None:
        """Tell what was done: as JSON, or as a sentence."""
        if self.json:
            self.screen.json(value)
        else:
            self.screen.line(text)

    async def find(self, text: str) -> str:
        """Return the execution id that is meant: a whole one, its UUID, or the beginning of that."""
        return await resolve_execution(self.store, text)


def short_id(whole: str) -> str:
    """Return the beginning of the UUID in an id, which is enough to name it to `ff`."""
    return whole.rpartition(":")[2][:SHOWN]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what every command that asks a store understands."""
    parser.add_argument(
        "--store",
        metavar="URL",
        default="",
        help="path, valkey://… or http://server:9090 (default: FF_STORE, else a file of yours)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def command(
    commands: Any, name: str, about: str, work: Work, *, creates: bool = False
) -> argparse.ArgumentParser:
    """Describe a command that asks a store; `creates` lets it make a file that is not there."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=about, description=about)
    add_options(parser)
    parser.set_defaults(run=lambda given: asyncio.run(at_desk(given, work, creates=creates)))
    return parser


async def at_desk(given: argparse.Namespace, work: Work, *, creates: bool = False) -> int:
    """Open the store that is meant, do the work, and close it."""
    url = store_url(given.store)
    store = await open_named(url, creates=creates)
    try:
        return await work(Desk(given, url, store))
    finally:
        await store.close()


async def open_named(url: str, *, creates: bool = False) -> Commands:
    """Open a store or reach a server, without leaving a new secret or a new file behind."""
    if family(url) in SERVER:
        return await _reach(url)
    if family(url) == EMBEDDED:
        if creates:
            make_folder(url)
        else:
            _refuse_missing(url)
    return await open_unseeded(url, partitions=partitions())


def _refuse_missing(url: str) -> None:
    """Refuse a file that is not there, which opening it would make."""
    if MEMORY in url or Path(sqlite_parts(url)[0]).exists():
        return
    problem = f"there is no store at {url}; name one with --store or FF_STORE, or submit something"
    raise Refused(problem, Exit.UNREACHABLE)


def partitions() -> Partitions:
    """Return the counts that the environment sets."""
    return Partitions(*(value_of(name, os.environ) for name in COUNTS))


def token_for(url: str) -> str:
    """Return the token of the environment, unless the URL has one."""
    has_token = "@" in url.partition("://")[2].partition("/")[0]
    return "" if has_token else os.environ.get("FF_API_TOKEN", "")


async def _reach(url: str) -> Commands:
    from flowfabric.client import HttpClient  # noqa: PLC0415 - loads an HTTP library
    from flowfabric.client.transport import Limits  # noqa: PLC0415

    try:
        return await HttpClient.open(url, token=token_for(url), limits=Limits(tries=3))
    except Exception as error:
        if getattr(error, "code", "") == "unreachable":
            raise Refused(
                f"no server answers at {without_password(url)}; is `ff server` running there?",
                Exit.UNREACHABLE,
            ) from error
        raise
