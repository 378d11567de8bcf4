"""Open the store or server that a command works on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from flowfabric.cli.support.exit_codes import CommandError, ExitCode
from flowfabric.model.ids import Partitions
from flowfabric.storage import open_unseeded
from flowfabric.storage.base import Commands
from flowfabric.storage.resolve import EMBEDDED, MEMORY, family, make_folder, sqlite_parts, without_password
from flowfabric.variables import value_of

PARTITION_VARIABLES: Final = ("FF_FLOW_PARTITIONS", "FF_BUDGET_PARTITIONS", "FF_QUOTA_PARTITIONS")


def is_server(url: str) -> bool:
    """Return whether a URL names a server rather than a store."""
    return family(url) in {"http", "https"}


async def open_target(url: str, *, creates: bool = False) -> Commands:
    """Open a store or connect to a server; write no secret, and no file unless the command `creates` one."""
    if is_server(url):
        return await _connect(url)
    if family(url) == EMBEDDED:
        if creates:
            make_folder(url)
        else:
            _require_file(url)
    return await open_unseeded(url, partitions=partition_counts())


def _require_file(url: str) -> None:
    """Raise `CommandError` if the SQLite file does not exist, because opening would create it."""
    if MEMORY in url or Path(sqlite_parts(url)[0]).exists():
        return
    problem = f"there is no store at {url}; name one with --store or FF_STORE, or submit something"
    raise CommandError(problem, ExitCode.UNREACHABLE)


def partition_counts() -> Partitions:
    """Return the partition counts that the environment sets."""
    return Partitions(*(value_of(name, os.environ) for name in PARTITION_VARIABLES))


def token_for(url: str) -> str:
    """Return `FF_API_TOKEN`, or nothing if the URL has a token itself."""
    has_token = "@" in url.partition("://")[2].partition("/")[0]
    return "" if has_token else os.environ.get("FF_API_TOKEN", "")


async def _connect(url: str) -> Commands:
    from flowfabric.client import HttpClient  # noqa: PLC0415 - imports an HTTP library
    from flowfabric.client.transport import Limits  # noqa: PLC0415

    try:
        return await HttpClient.open(url, token=token_for(url), limits=Limits(tries=3))
    except Exception as error:
        if getattr(error, "code", "") == "unreachable":
            raise CommandError(
                f"no server answers at {without_password(url)}; is `ff server` running there?",
                ExitCode.UNREACHABLE,
            ) from error
        raise
