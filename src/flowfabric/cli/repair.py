"""`ff admin repair`: compare a store's indexes with its records, and mend them."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any, Final

from flowfabric.cli.desk import partitions
from flowfabric.cli.progress import Progress
from flowfabric.cli.screen import Screen
from flowfabric.model.errors import FlowFabricError, invalid
from flowfabric.server.variables import BadSetting
from flowfabric.storage import open_unseeded
from flowfabric.storage.base import RepairReport
from flowfabric.storage.resolve import EMBEDDED, family, sqlite_parts, store_url

FOUND: Final = 1
FAILED: Final = 2


def add(actions: Any) -> None:
    """Describe the command."""
    parser = actions.add_parser(
        "repair", help="compare indexes with records, and mend them; others may go on working"
    )
    parser.add_argument("--store", default="", help="URL or path of the store (default: as for `ff server`)")
    parser.add_argument(
        "--look", action="store_true", help="change nothing; end with 1 when something is wrong"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=repair)


def repair(given: argparse.Namespace) -> int:
    """Repair, and tell what was found."""
    try:
        url = store_url(given.store)
        if family(url) == EMBEDDED and not Path(sqlite_parts(url)[0]).exists():
            raise invalid("store", f"there is no file {url}")  # opening it would make one
        report = asyncio.run(_repair(url, fix=not given.look, quiet=given.json))
    except (FlowFabricError, BadSetting) as error:
        print(f"ff: {error}", file=sys.stderr)
        return FAILED
    screen = Screen()
    if given.json:
        screen.json(report)
    else:
        for sentence in report.wrong:
            screen.line(sentence)
        screen.line(f"{report.checked} executions compared: {_verdict(report)}")
    return FOUND if report.wrong and not report.fixed else 0


def _verdict(report: RepairReport) -> str:
    if not report.wrong:
        return "everything is as it should be"
    entries = f"{len(report.wrong)} entries" if len(report.wrong) > 1 else "1 entry"
    return f"{entries} mended" if report.fixed else f"{entries} wrong"


async def _repair(url: str, *, fix: bool, quiet: bool) -> RepairReport:
    store = await open_unseeded(url, partitions=partitions())
    try:
        async with Progress("comparing indexes with records", quiet=quiet):
            return await store.repair(fix=fix)
    finally:
        await store.close()
