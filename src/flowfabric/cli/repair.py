"""`ff admin repair`: compare a store's indexes with its records, and mend them."""

from __future__ import annotations

from typing import Any

from flowfabric.cli.desk import SERVER, Desk, command
from flowfabric.cli.exits import Exit, Refused
from flowfabric.cli.progress import Progress
from flowfabric.storage.base import RepairReport, Upkeep
from flowfabric.storage.resolve import family


def add(actions: Any) -> None:
    """Describe the command."""
    parser = command(
        actions, "repair", "compare indexes with records, and mend them; others may go on working", repair
    )
    parser.add_argument(
        "--look", action="store_true", help="change nothing; end with 1 when something is wrong"
    )


async def repair(desk: Desk) -> int:
    """Repair, and tell what was found."""
    if family(desk.url) in SERVER:
        raise Refused("a server repairs its store every hour; name the store itself", Exit.USAGE)
    store: Upkeep = desk.store  # type: ignore[assignment] # what is no server offers all of it
    async with Progress("comparing indexes with records", quiet=desk.json):
        report = await store.repair(fix=not desk.given.look)
    if desk.json:
        desk.screen.json(report)
    else:
        for sentence in report.wrong:
            desk.screen.line(sentence)
        desk.screen.line(f"{report.checked} executions compared: {_verdict(report)}")
    return Exit.REFUSED if report.wrong and not report.fixed else Exit.OK


def _verdict(report: RepairReport) -> str:
    if not report.wrong:
        return "everything is as it should be"
    entries = f"{len(report.wrong)} entries" if len(report.wrong) > 1 else "1 entry"
    return f"{entries} mended" if report.fixed else f"{entries} wrong"
