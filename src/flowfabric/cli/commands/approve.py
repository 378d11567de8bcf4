"""`ff approve`: approve or reject what waits for a decision."""

from __future__ import annotations

from typing import Any

from flowfabric.cli.support.pages import read_inbox
from flowfabric.cli.support.session import CommandSession, add_store_command
from flowfabric.cli.support.signals import add_signal_options, read_payload, report_sent
from flowfabric.cli.support.waitpoints import APPROVE, is_id_prefix


def add(commands: Any) -> None:
    """Add the parser of `ff approve`."""
    about = "send the signal `approve`, or with --reject `reject`"
    parser = add_store_command(commands, "approve", about, approve)
    parser.add_argument(
        "id",
        metavar="ID|WAITPOINT",
        help="the execution or its waitpoint: its id or the beginning of its UUID",
    )
    parser.add_argument("--reject", action="store_true", help="send `reject`")
    add_signal_options(parser, by="who decides; each name counts once")


async def approve(session: CommandSession) -> int:
    """Send one decision."""
    given = session.given
    execution_id, waitpoint = await _find_target(session, given.id)
    run = session.run(execution_id)
    decide = run.reject if given.reject else run.approve
    await decide(read_payload(session), by=given.by, waitpoint=waitpoint, within=given.within)
    report_sent(session, execution_id, "reject" if given.reject else APPROVE)
    return 0


async def _find_target(session: CommandSession, text: str) -> tuple[str, str]:
    """Return the execution and, if the text names a waitpoint, that waitpoint."""
    if not text.startswith("{"):
        views = [view for view in await read_inbox(session.store) if is_id_prefix(text, view.waitpoint_id)]
        if len(views) == 1:
            return views[0].execution_id, views[0].waitpoint_id
    return await session.find(text), ""
