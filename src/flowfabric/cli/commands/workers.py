"""`ff workers`: list live workers."""

from __future__ import annotations

from typing import Any

import msgspec

from flowfabric.cli.support.pages import read_workers
from flowfabric.cli.support.session import CommandSession, add_store_command
from flowfabric.model.times import since


def add(commands: Any) -> None:
    """Add the parser of `ff workers`."""
    add_store_command(commands, "workers", "list live workers", workers)


async def workers(session: CommandSession) -> int:
    """List all live workers."""
    found = await read_workers(session.store)
    if session.json:
        session.output.json([msgspec.structs.asdict(each) | {"kinds": each.kinds or None} for each in found])
        return 0
    now = session.now()
    session.output.table(
        ("worker", "instance", "namespace", "lanes", "kinds", "capabilities", "seen"),
        [
            (
                each.worker_id,
                each.worker_instance_id,
                each.namespace,
                ", ".join(each.lanes),
                ", ".join(each.kinds) or "any",
                ", ".join(each.capabilities),
                since(each.last_heartbeat_at, now),
            )
            for each in found
        ],
    )
    return 0
