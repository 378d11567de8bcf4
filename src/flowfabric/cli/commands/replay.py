"""`ff replay`: run an execution again after its end."""

from __future__ import annotations

from typing import Any

from flowfabric.cli.support.operations import ACTOR, apply
from flowfabric.cli.support.options import add_id, add_reason
from flowfabric.cli.support.session import CommandSession, add_store_command
from flowfabric.model.operations.operate import Replay


def add(commands: Any) -> None:
    """Add the parser of `ff replay`."""
    parser = add_store_command(commands, "replay", "run an execution again after its end", replay)
    add_id(parser)
    parser.add_argument("--keep-steps", action="store_true", help="skip all steps that are stored")
    parser.add_argument("--from-step", metavar="STEP", default="", help="skip the steps before this one")
    add_reason(parser)


async def replay(session: CommandSession) -> int:
    """Replay one execution."""
    given = session.given
    execution_id = await session.find(given.id)
    command = Replay(
        execution_id=execution_id,
        keep_steps=given.keep_steps,
        from_step=given.from_step,
        reason=given.reason,
        requested_by=ACTOR,
        actor=ACTOR,
    )
    state = (await apply(session, command, "only what has ended can be replayed")).public_state
    document = {"execution_id": execution_id, "public_state": str(state)}
    session.report(document, f"{execution_id} is {state} again")
    return 0
