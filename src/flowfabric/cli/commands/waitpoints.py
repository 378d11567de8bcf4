"""`ff waitpoints`: list what waits for a signal."""

from __future__ import annotations

from typing import Any

from flowfabric.cli.support.options import add_limit
from flowfabric.cli.support.session import CommandSession, add_store_command
from flowfabric.cli.support.waitpoints import show_waitpoints
from flowfabric.model.operations.signal import ReadInbox
from flowfabric.wire.views import WaitpointOfDetail


def add(commands: Any) -> None:
    """Add the parser of `ff waitpoints`."""
    about = "list everything that waits for a signal, oldest first"
    add_limit(add_store_command(commands, "waitpoints", about, waitpoints), 100)


async def waitpoints(session: CommandSession) -> int:
    """List open waitpoints."""
    views = (await session.store.read(ReadInbox(limit=session.given.limit))).waitpoints
    if session.json:
        session.output.json([WaitpointOfDetail.of(view, reason=view.reason_code) for view in views])
    else:
        show_waitpoints(session, views)
    return 0
