"""`ff signal`: send a signal to an execution."""

from __future__ import annotations

from typing import Any

from flowfabric.cli.support.options import add_id
from flowfabric.cli.support.session import CommandSession, add_store_command
from flowfabric.cli.support.signals import add_signal_options, read_payload, report_sent
from flowfabric.cli.support.waitpoints import find_waitpoint


def add(commands: Any) -> None:
    """Add the parser of `ff signal`."""
    parser = add_store_command(commands, "signal", "send a signal to an execution that waits for it", signal)
    add_id(parser)
    parser.add_argument("name", metavar="NAME", help="the name of the signal")
    parser.add_argument("--waitpoint", default="", help="which waitpoint, if several take the signal")
    parser.add_argument(
        "--token", default="", help="the waitpoint's token: sends as an outsider, not as an operator"
    )
    parser.add_argument("--key", default="", help="idempotency key: of several signals the first counts")
    add_signal_options(parser, by="who sends it")


async def signal(session: CommandSession) -> int:
    """Send one signal."""
    given = session.given
    execution_id = await session.find(given.id)
    waitpoint = await find_waitpoint(session, execution_id, given.waitpoint) if given.waitpoint else ""
    await session.run(execution_id).signal(
        given.name,
        read_payload(session),
        waitpoint=waitpoint,
        token=given.token,
        by=given.by,
        key=given.key,
        within=given.within,
    )
    report_sent(session, execution_id, given.name)
    return 0
