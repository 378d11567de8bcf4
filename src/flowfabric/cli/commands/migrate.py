"""`ff migrate`: upgrade the data format of a store."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any, Final

from flowfabric.cli.support.exit_codes import CommandError, ExitCode
from flowfabric.cli.support.options import add_store_options
from flowfabric.cli.support.output import Output
from flowfabric.cli.support.progress import ProgressLine
from flowfabric.cli.support.sqlite_format import sqlite_format
from flowfabric.cli.support.target import is_server, open_target
from flowfabric.storage.resolve import EMBEDDED, family, make_folder, store_url, without_password

ABOUT: Final = "upgrade the data format of a store, as every process that opens it does"


def add(commands: Any) -> None:
    """Add the parser of `ff migrate`."""
    parser = commands.add_parser("migrate", help=ABOUT, description=ABOUT)
    add_store_options(parser)
    parser.add_argument(
        "--look", action="store_true", help="change nothing; end with 1 if there is something to do"
    )
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Migrate a store, and report its format before and after."""
    url = store_url(given.store)
    if is_server(url):
        raise CommandError(
            "a server upgrades its store when it starts; name the store itself", ExitCode.USAGE
        )
    before, newest = sqlite_format(url) if family(url) == EMBEDDED else asyncio.run(_valkey_format(url))
    if not given.look:
        make_folder(url)
        asyncio.run(_migrate(url, quiet=given.json))
    is_outdated = before != newest
    document = {
        "store": without_password(url),
        "before": before,
        "newest": newest,
        "changed": is_outdated and not given.look,
    }
    output = Output()
    if given.json:
        output.json(document)
    else:
        output.line(f"{document['store']}: {_sentence(before, newest, only_look=given.look)}")
    return ExitCode.REFUSED if is_outdated and given.look else ExitCode.OK


async def _valkey_format(url: str) -> tuple[int, int]:
    """Return the format of the data in Valkey, 0 if there are none, and the newest format."""
    # These modules need the driver.
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
        raise CommandError(f"format {stored} was never released; use an empty database", ExitCode.UNREACHABLE)
    return stored, FORMAT


async def _migrate(url: str, *, quiet: bool) -> None:
    async with ProgressLine("upgrading", quiet=quiet):
        store = await open_target(url, creates=True)
        await store.close()


def _sentence(before: int, newest: int, *, only_look: bool) -> str:
    if before == newest:
        return f"format {newest}, nothing to do"
    if before > newest:
        return f"format {before} is newer than this FlowFabric knows ({newest}); upgrade it"
    was = f"format {before}" if before else "empty"
    return (
        f"{was}, this FlowFabric wants {newest}; run `ff migrate`"
        if only_look
        else f"{was} before, format {newest} now"
    )
