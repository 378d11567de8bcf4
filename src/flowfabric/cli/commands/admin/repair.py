"""`ff admin repair`: compare the indexes of a store with its records, and repair them."""

from __future__ import annotations

from typing import Any

from flowfabric.cli.support.exit_codes import CommandError, ExitCode
from flowfabric.cli.support.progress import ProgressLine
from flowfabric.cli.support.session import CommandSession, add_store_command
from flowfabric.cli.support.target import is_server
from flowfabric.storage.base import RepairReport, Upkeep


def add(actions: Any) -> None:
    """Add the parser of `ff admin repair`."""
    about = "compare indexes with records, and repair them; workers and servers may go on working"
    parser = add_store_command(actions, "repair", about, repair)
    parser.add_argument(
        "--look", action="store_true", help="change nothing; end with 1 if something is wrong"
    )


async def repair(session: CommandSession) -> int:
    """Repair a store, and report what was wrong."""
    if is_server(session.url):
        raise CommandError("a server repairs its store every hour; name the store itself", ExitCode.USAGE)
    store: Upkeep = session.store  # type: ignore[assignment] # every store except a server is one
    async with ProgressLine("comparing indexes with records", quiet=session.json):
        report = await store.repair(fix=not session.given.look)
    if session.json:
        session.output.json(report)
    else:
        for sentence in report.wrong:
            session.output.line(sentence)
        session.output.line(f"{report.checked} executions compared: {_verdict(report)}")
    return ExitCode.REFUSED if report.wrong and not report.fixed else ExitCode.OK


def _verdict(report: RepairReport) -> str:
    if not report.wrong:
        return "everything is as it should be"
    entries = f"{len(report.wrong)} entries" if len(report.wrong) > 1 else "1 entry"
    return f"{entries} repaired" if report.fixed else f"{entries} wrong"
