"""`ff explain`: say what an execution waits for."""

from __future__ import annotations

from typing import Any

from flowfabric.app.views import explanation_of
from flowfabric.cli.support.execution_notes import waits_for_worker
from flowfabric.cli.support.options import add_id
from flowfabric.cli.support.pages import find_kind
from flowfabric.cli.support.session import CommandSession, add_store_command
from flowfabric.cli.support.text import printable, printable_lines
from flowfabric.cli.support.waitpoints import answer_commands
from flowfabric.engine import every_waitpoint
from flowfabric.model.kinds import DEFAULT_LANE
from flowfabric.model.operations.read import Describe, Description
from flowfabric.model.operations.worker_serving import NO_WORKER_FOR_KIND
from flowfabric.model.state import Blocking, Public


def add(commands: Any) -> None:
    """Add the parser of `ff explain`."""
    add_id(add_store_command(commands, "explain", "say why an execution makes no progress", explain))


async def explain(session: CommandSession) -> int:
    """Print the state, every reason to wait, and the commands that answer open waitpoints."""
    execution_id = await session.find(session.given.id)
    description = await session.store.read(Describe(execution_id=execution_id))
    explanation = explanation_of(description)
    if session.json:
        session.output.json(explanation)
        return 0
    state = session.output.paint_state(str(explanation.state))
    session.output.line(f"{explanation.execution_id} is {state}")
    for reason in explanation.because:
        _indent(session, printable(reason.detail))
    if other_lane := await _explain_lane(session, description):
        _indent(session, printable(other_lane))
    if explanation.state is Public.SUSPENDED:
        for view, line in answer_commands(session, await every_waitpoint(session.store, execution_id)):
            if view.message:
                _indent(session, f"it asks: {printable_lines(view.message)}")
            _indent(session, f"answer it with `{line}`")
    return 0


def _indent(session: CommandSession, text: str) -> None:
    session.output.paragraph(text, head="  ", column=2)


async def _explain_lane(session: CommandSession, description: Description) -> str:
    """Return a sentence if no worker takes the execution from its lane, and its kind belongs to another lane."""
    run, because = description.run, description.because
    if not waits_for_worker(run) or not because:
        return ""
    last = because[-1]
    if last.reason != NO_WORKER_FOR_KIND and (last.reason != Blocking.WORKER or last.data["live_workers"]):
        return ""
    kind = await find_kind(session.store, run.execution_kind, run.namespace)
    lane = run.lane_id if kind is None else kind.lane or DEFAULT_LANE
    if lane == run.lane_id:
        return ""
    problem = f"{run.execution_kind} is published for lane {lane}, and this run waits on lane {run.lane_id}"
    return f"{problem}: cancel it and submit it again, or let a worker serve lane {run.lane_id}, too"
