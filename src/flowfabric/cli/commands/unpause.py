"""`ff unpause`: let a paused execution or lane continue."""

from __future__ import annotations

from typing import Any

from flowfabric.cli.support.operations import ACTOR, apply, read_lane
from flowfabric.cli.support.options import ID_HELP
from flowfabric.cli.support.session import CommandSession, add_store_command
from flowfabric.model.operations.lane import UnpauseLane
from flowfabric.model.operations.operate import Unpause


def add(commands: Any) -> None:
    """Add the parser of `ff unpause`."""
    about = "let a paused execution or lane continue"
    parser = add_store_command(commands, "unpause", about, unpause)
    parser.add_argument("id", metavar="ID", nargs="?", default="", help=ID_HELP)
    parser.add_argument("--lane", default="", help="a lane instead of an execution")


async def unpause(session: CommandSession) -> int:
    """Unpause one execution or lane."""
    lane = await read_lane(session)
    if lane:
        await session.store.apply(UnpauseLane(lane_id=lane, actor=ACTOR))
        session.report({"lane_id": lane, "paused": False}, f"lane {lane} goes on")
        return 0
    execution_id = await session.find(session.given.id)
    await apply(session, Unpause(execution_id=execution_id, actor=ACTOR), "it is not paused")
    session.report({"execution_id": execution_id, "paused": False}, f"{execution_id} goes on")
    return 0
