"""`ff migrate`: bring the data of a store up to date, or say how old it is."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any, Final

from flowfabric.cli.desk import SERVER, add_options, open_named
from flowfabric.cli.exits import Exit, Refused
from flowfabric.cli.formats import sqlite_format
from flowfabric.cli.progress import Progress
from flowfabric.cli.screen import Screen
from flowfabric.storage.resolve import EMBEDDED, family, make_folder, store_url, without_password

ABOUT: Final = "bring the data of a store up to date; every process that opens it does so, too"


def add(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser("migrate", help=ABOUT, description=ABOUT)
    add_options(parser)
    parser.add_argument(
        "--look", action="store_true", help="change nothing; end with 1 when there is something to do"
    )
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Migrate, and tell what was done."""
    url = store_url(given.store)
    kind = family(url)
    if kind in SERVER:
        raise Refused(
            "a server brings its store up to date when it starts; name the store itself", Exit.USAGE
        )
    before, newest = sqlite_format(url) if kind == EMBEDDED else asyncio.run(_valkey_format(url))
    if not given.look:
        make_folder(url)
        asyncio.run(_open(url, quiet=given.json))
    behind = before != newest
    told = {
        "store": without_password(url),
        "before": before,
        "newest": newest,
        "changed": behind and not given.look,
    }
    screen = Screen()
    if given.json:
        screen.json(told)
    else:
        screen.line(f"{told['store']}: {_sentence(before, newest, looked=given.look)}")
    return Exit.REFUSED if behind and given.look else Exit.OK


async def _valkey_format(url: str) -> tuple[int, int]:
    """Return the format of the data on a server, and the newest; 0: there are none. Older ones were never released."""
    # They need the driver.
    from flowfabric.storage.valkey.cluster.cluster import Cluster  # noqa: PLC0415
    from flowfabric.storage.valkey.cluster.topology import is_cluster  # noqa: PLC0415
    from flowfabric.storage.valkey.connection.client import Client  # noqa: PLC0415
    from flowfabric.storage.valkey.opening.boot import CLUSTER_MARK, FORMAT, MARK  # noqa: PLC0415

    client, mark = (Cluster(url), CLUSTER_MARK) if is_cluster(url) else (Client(url), MARK)
    try:
        stored = int(await client.call("HGET", mark, "format") or 0)
    finally:
        client.close()
    if 0 < stored < FORMAT:
        raise Refused(f"format {stored} was never released; use an empty database", Exit.UNREACHABLE)
    return stored, FORMAT


async def _open(url: str, *, quiet: bool) -> None:
    async with Progress("bringing it up to date", quiet=quiet):
        store = await open_named(url, creates=True)
        await store.close()


def _sentence(before: int, newest: int, *, looked: bool) -> str:
    if before == newest:
        return f"format {newest}, nothing to do"
    if before > newest:
        return f"format {before} is newer than this FlowFabric knows ({newest}); upgrade it"
    was = f"format {before}" if before else "empty"
    return (
        f"{was}, this FlowFabric wants {newest}; run `ff migrate`"
        if looked
        else f"{was} before, format {newest} now"
    )
