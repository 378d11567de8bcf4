"""`ff cancel`, `ff pause`, `ff unpause`, `ff replay`: what operators do to work."""

from __future__ import annotations

import difflib
from typing import Any, Final, TypeVar

from flowfabric.cli.advice import known_lanes
from flowfabric.cli.desk import Desk, command
from flowfabric.cli.exits import Exit, Refused
from flowfabric.model.command import OPERATOR_OVERRIDE, ExecutionCommand
from flowfabric.model.errors import FlowFabricError, invalid
from flowfabric.model.operations.finish import Cancel
from flowfabric.model.operations.lane import PauseLane, UnpauseLane
from flowfabric.model.operations.operate import Pause, Replay, Unpause
from flowfabric.model.operations.read import GetExecution

R = TypeVar("R")

ACTOR: Final = "ff"
SHOWN: Final = 10
"""So many lanes are named when an unknown one was given."""
STATE: Final = frozenset({"execution_not_active", "execution_not_eligible", "execution_not_terminal"})
"""Refusals that a state explains."""


def add(commands: Any) -> None:
    """Describe the commands."""
    parser = command(commands, "cancel", "end an execution, whatever it is doing", cancel)
    parser.add_argument("id", metavar="ID", help="the execution; its UUID or the beginning of that will do")
    parser.add_argument("--reason", default="", help="why, for its history")
    for name, about, work in (
        ("pause", "hold back an execution that does not run yet, or a whole lane", pause),
        ("unpause", "let what was paused go on", unpause),
    ):
        parser = command(commands, name, about, work)
        parser.add_argument(
            "id",
            metavar="ID",
            nargs="?",
            default="",
            help="the execution; its UUID or the beginning of that will do",
        )
        parser.add_argument("--lane", default="", help="a lane instead of an execution")
        if name == "pause":
            parser.add_argument("--reason", default="", help="why, for whoever asks")
    parser = command(commands, "replay", "run an execution once more after its end", replay)
    parser.add_argument("id", metavar="ID", help="the execution; its UUID or the beginning of that will do")
    parser.add_argument("--keep-steps", action="store_true", help="pass all steps that are stored")
    parser.add_argument("--from-step", metavar="STEP", default="", help="pass the steps before this one")
    parser.add_argument("--reason", default="", help="why, for its history")


async def _operate(desk: Desk, command: ExecutionCommand[R], rule: str) -> R:
    """Do it; where the state of the execution does not allow it, say which state that is."""
    try:
        return await desk.store.apply(command)
    except FlowFabricError as error:
        if error.code not in STATE:
            raise
        state = (await desk.store.read(GetExecution(execution_id=command.execution_id))).public_state
        raise Refused(f"{rule}: {command.execution_id} is {state}") from error


async def cancel(desk: Desk) -> int:
    """Cancel one execution."""
    execution_id = await desk.find(desk.given.id)
    answer = await _operate(
        desk,
        Cancel(execution_id=execution_id, source=OPERATOR_OVERRIDE, reason=desk.given.reason, actor=ACTOR),
        "there is nothing to cancel",
    )
    told = {"execution_id": execution_id, "public_state": str(answer.public_state)}
    desk.say(told, f"{execution_id} is {answer.public_state}")
    return 0


async def pause(desk: Desk) -> int:
    """Pause one execution or lane."""
    lane, reason = _lane(desk), desk.given.reason
    if lane:
        await _refuse_unknown(desk, lane)
        await desk.store.apply(PauseLane(lane_id=lane, reason=reason, actor=ACTOR))
        desk.say({"lane_id": lane, "paused": True}, f"lane {lane} is paused; what runs goes on")
        return 0
    execution_id = await desk.find(desk.given.id)
    await _operate(
        desk,
        Pause(execution_id=execution_id, reason=reason, actor=ACTOR),
        "only what does not run yet can be paused",
    )
    desk.say({"execution_id": execution_id, "paused": True}, f"{execution_id} is paused")
    return 0


async def unpause(desk: Desk) -> int:
    """Let one execution or lane go on."""
    lane = _lane(desk)
    if lane:
        await _refuse_unknown(desk, lane)
        await desk.store.apply(UnpauseLane(lane_id=lane, actor=ACTOR))
        desk.say({"lane_id": lane, "paused": False}, f"lane {lane} goes on")
        return 0
    execution_id = await desk.find(desk.given.id)
    await _operate(desk, Unpause(execution_id=execution_id, actor=ACTOR), "it is not paused")
    desk.say({"execution_id": execution_id, "paused": False}, f"{execution_id} goes on")
    return 0


def _lane(desk: Desk) -> str:
    lane: str = desk.given.lane
    if bool(lane) == bool(desk.given.id):
        raise invalid("id", "name an execution, or a lane with --lane")
    return lane


async def _refuse_unknown(desk: Desk, lane: str) -> None:
    """Refuse a lane that has no work and no worker: it is most likely misspelt."""
    known = await known_lanes(desk)
    if lane in known:
        return
    shown = difflib.get_close_matches(lane, known, SHOWN) or sorted(known)[:SHOWN]
    more = ", …" if len(known) > len(shown) else ""
    raise Refused(
        f"no work and no worker is on a lane {lane}; there is {', '.join(shown)}{more}", Exit.NOT_FOUND
    )


async def replay(desk: Desk) -> int:
    """Start one execution again."""
    given = desk.given
    execution_id = await desk.find(given.id)
    answer = await _operate(
        desk,
        Replay(
            execution_id=execution_id, keep_steps=given.keep_steps, from_step=given.from_step,
            reason=given.reason, requested_by=ACTOR, actor=ACTOR,
        ),
        "only what has ended can be replayed",
    )  # fmt: skip
    told = {"execution_id": execution_id, "public_state": str(answer.public_state)}
    desk.say(told, f"{execution_id} is {answer.public_state} again")
    return 0
