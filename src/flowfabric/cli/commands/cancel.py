"""`ff cancel`: end an execution."""

from __future__ import annotations

from typing import Any

from flowfabric.cli.support.operations import ACTOR, apply
from flowfabric.cli.support.options import add_id, add_reason
from flowfabric.cli.support.session import CommandSession, add_store_command
from flowfabric.model.command import OPERATOR_OVERRIDE
from flowfabric.model.operations.finish import Cancel


def add(commands: Any) -> None:
    """Add the parser of `ff cancel`."""
    parser = add_store_command(commands, "cancel", "end an execution, whatever it is doing", cancel)
    add_id(parser)
    add_reason(parser)


async def cancel(session: CommandSession) -> int:
    """Cancel one execution."""
    execution_id = await session.find(session.given.id)
    command = Cancel(
        execution_id=execution_id, source=OPERATOR_OVERRIDE, reason=session.given.reason, actor=ACTOR
    )
    state = (await apply(session, command, "there is nothing to cancel")).public_state
    session.report({"execution_id": execution_id, "public_state": str(state)}, f"{execution_id} is {state}")
    return 0
