"""`ff pause`: hold back an execution or a lane."""

from __future__ import annotations

from typing import Any

from flowfabric.cli.support.operations import ACTOR, apply, read_lane
from flowfabric.cli.support.options import ID_HELP, add_reason
from flowfabric.cli.support.session import CommandSession, add_store_command
from flowfabric.model.operations.lane import PauseLane
from flowfabric.model.operations.operate import Pause


def add(commands: Any) -> None:
    """Add the parser of `ff pause`."""
    about = "hold back an execution that does not run yet, or a whole lane"
    parser = add_store_command(commands, "pause", about, pause)
    parser.add_argument("id", metavar="ID", nargs="?", default="", help=ID_HELP)
    parser.add_argument("--lane", default="", help="a lane instead of an execution")
    add_reason(parser, "why, for whoever asks")


async def pause(session: CommandSession) -> int:
    """Pause one execution or lane."""
    lane, reason = await read_lane(session), session.given.reason
    if lane:
        await session.store.apply(PauseLane(lane_id=lane, reason=reason, actor=ACTOR))
        session.report({"lane_id": lane, "paused": True}, f"lane {lane} is paused; what runs goes on")
        return 0
    execution_id = await session.find(session.given.id)
    command = Pause(execution_id=execution_id, reason=reason, actor=ACTOR)
    await apply(session, command, "only what does not run yet can be paused")
    session.report({"execution_id": execution_id, "paused": True}, f"{execution_id} is paused")
    return 0
