"""`ff doctor`: check a store and its server."""

from __future__ import annotations

import argparse
import asyncio
import platform
import sys
from typing import Any, Final

import flowfabric
from flowfabric.cli.doctor.finding import COLOURS, Finding, Verdict
from flowfabric.cli.doctor.store import check_secret, check_store
from flowfabric.cli.support.exit_codes import CommandError, ExitCode, exit_code_of, message_of
from flowfabric.cli.support.options import add_store_options
from flowfabric.cli.support.output import Output
from flowfabric.cli.support.sqlite_format import sqlite_format
from flowfabric.cli.support.target import is_server, open_target
from flowfabric.model.errors import FlowFabricError
from flowfabric.storage.base import Commands
from flowfabric.storage.resolve import EMBEDDED, MEMORY, family, store_url, without_password

ABOUT: Final = "check a store: versions, settings, clocks, idle load; say what to change"


def add(commands: Any) -> None:
    """Add the parser of `ff doctor`."""
    parser = commands.add_parser("doctor", help=ABOUT, description=ABOUT)
    add_store_options(parser)
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Print the findings, and return 1 if something must be changed."""
    findings = asyncio.run(_examine(store_url(given.store)))
    output = Output()
    if given.json:
        output.json(findings)
    else:
        for each in findings:
            verdict = output.paint(f"{each.verdict:<6}", COLOURS[each.verdict])
            remedy = f"; {each.remedy}" if each.remedy else ""
            output.line(f"{verdict}  {each.name}: {each.value}{remedy}")
    has_change = any(each.verdict is Verdict.CHANGE for each in findings)
    return ExitCode.REFUSED if has_change else ExitCode.OK


async def _examine(url: str) -> list[Finding]:
    findings = [
        Finding("flowfabric", flowfabric.__version__),
        Finding("python", f"{platform.python_version()} on {sys.platform}"),
        Finding("store", without_password(url)),
    ]
    outdated = _check_format(url)
    if outdated is not None:  # opening the file would upgrade it, and a check changes nothing
        return [*findings, outdated]
    try:
        store = await open_target(url)
    except FlowFabricError as error:
        if exit_code_of(error) != ExitCode.UNREACHABLE:
            raise
        return [*findings, Finding("opens", "no", Verdict.CHANGE, message_of(error))]
    except CommandError as error:
        return [*findings, Finding("opens", "no", Verdict.CHANGE, str(error))]
    try:
        return [*findings, *await check_store(store), *await _check_backend(url, store)]
    finally:
        await store.close()


def _check_format(url: str) -> Finding | None:
    """Return a finding if the SQLite file has an older format."""
    if family(url) != EMBEDDED or MEMORY in url:
        return None
    version, newest = sqlite_format(url)
    if version == 0 or version >= newest:  # new or current; opening refuses a newer one with an explanation
        return None
    return Finding("format", f"{version}, wanted {newest}", Verdict.CHANGE, "`ff migrate` upgrades it")


async def _check_backend(url: str, store: Commands) -> list[Finding]:
    """Run the checks that only this kind of store has; each imports what it needs."""
    if is_server(url):
        from flowfabric.cli.doctor.server import check_server  # noqa: PLC0415

        return await check_server(url)
    findings = await check_secret(store)
    if family(url) == "valkey":
        from flowfabric.cli.doctor.valkey import check_valkey  # noqa: PLC0415

        return findings + await check_valkey(store)
    from flowfabric.cli.doctor.sqlite import check_sqlite  # noqa: PLC0415

    return findings + await asyncio.to_thread(check_sqlite, url)
