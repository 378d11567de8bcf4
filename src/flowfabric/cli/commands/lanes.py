"""`ff lanes`: list lanes."""

from __future__ import annotations

from typing import Any

import msgspec

from flowfabric.cli.support.pages import read_lanes
from flowfabric.cli.support.session import CommandSession, add_store_command
from flowfabric.model.operations.lane import LaneView
from flowfabric.model.state import TERMINAL_STATES
from flowfabric.model.times import since, span


def add(commands: Any) -> None:
    """Add the parser of `ff lanes`."""
    add_store_command(commands, "lanes", "list lanes, with the number of executions in each state", lanes)


async def lanes(session: CommandSession) -> int:
    """List all lanes."""
    views = await read_lanes(session.store)
    if session.json:
        documents = [msgspec.structs.asdict(view) | {"counts": dict(view.counts)} for view in views]
        session.output.json(documents)
        return 0
    now = session.now()
    session.output.table(
        ("lane", "waiting", "active", "suspended", "delayed", "ended", "oldest", "paused"),
        [_row(view, now) for view in views],
    )
    return 0


def _row(view: LaneView, now: int) -> tuple[str, ...]:
    counts = {str(state): count for state, count in view.counts}
    open_counts = [str(counts.get(state, 0)) for state in ("waiting", "active", "suspended", "delayed")]
    ended = sum(counts.get(state, 0) for state in TERMINAL_STATES)
    oldest = span(now - view.oldest_waiting_at) if view.oldest_waiting_at else ""
    paused = (view.pause_reason or since(view.paused_at, now)) if view.paused_at else ""
    return (view.lane_id, *open_counts, str(ended), oldest, paused)
