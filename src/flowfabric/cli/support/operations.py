"""What `ff cancel`, `ff pause`, `ff unpause` and `ff replay` share."""

from __future__ import annotations

import difflib
from typing import Final, TypeVar

from flowfabric.cli.support.exit_codes import CommandError, ExitCode
from flowfabric.cli.support.pages import read_lane_names
from flowfabric.cli.support.session import CommandSession
from flowfabric.model.command import ExecutionCommand
from flowfabric.model.errors import FlowFabricError, invalid
from flowfabric.model.operations.read import GetExecution

R = TypeVar("R")

ACTOR: Final = "ff"
"""The actor that the history names."""
MAX_LANES_NAMED: Final = 10
STATE_ERRORS: Final = frozenset({"execution_not_active", "execution_not_eligible", "execution_not_terminal"})
"""Codes of errors that the state of the execution explains."""


async def apply(session: CommandSession, command: ExecutionCommand[R], rule: str) -> R:
    """Apply a command; if the state forbids it, raise `CommandError` with the rule and the state."""
    try:
        return await session.store.apply(command)
    except FlowFabricError as error:
        if error.code not in STATE_ERRORS:
            raise
        state = (await session.store.read(GetExecution(execution_id=command.execution_id))).public_state
        raise CommandError(f"{rule}: {command.execution_id} is {state}") from error


async def read_lane(session: CommandSession) -> str:
    """Return `--lane` if it was given instead of an id; raise if both or none were, or if no such lane exists.

    A lane without work and without workers is most likely misspelt.
    """
    lane: str = session.given.lane
    if bool(lane) == bool(session.given.id):
        raise invalid("id", "name an execution, or a lane with --lane")
    if not lane:
        return ""
    known = await read_lane_names(session.store)
    if lane not in known:
        named = difflib.get_close_matches(lane, known, MAX_LANES_NAMED) or sorted(known)[:MAX_LANES_NAMED]
        more = ", …" if len(known) > len(named) else ""
        problem = f"no work and no worker is on a lane {lane}; there is {', '.join(named)}{more}"
        raise CommandError(problem, ExitCode.NOT_FOUND)
    return lane
