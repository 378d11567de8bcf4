"""End an execution, in whichever way."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from flowfabric.model.machine.attempt import clear_lineage, clear_waiting, end_attempt
from flowfabric.model.machine.closing import close_stream, close_suspension, close_waitpoints
from flowfabric.model.machine.followers import run_followers
from flowfabric.model.machine.holding import drop_lease, lease_details
from flowfabric.model.machine.workspace import Cause, Workspace
from flowfabric.model.records import Execution
from flowfabric.model.state import AttemptState, Phase
from flowfabric.model.transitions import Transition, move


class Ending(Struct, frozen=True, kw_only=True):
    """How an execution ends, beyond what the row of the transition says."""

    actor: str
    reason: str = ""
    attempt_reason: str = ""
    """Why its attempt failed, if it did."""
    category: str = ""
    """The category of that failure."""
    suspension_reason: str = ""
    """How its suspension is closed, if it has one."""
    attempt_changes: dict[str, Any] = {}
    changes: dict[str, Any] = {}
    """Further fields of the execution."""


def finish(space: Workspace, run: Execution, row: Transition, ending: Ending) -> Execution:
    """End an execution in any way: its attempt, its stream, its waits, and every time that was running."""
    if run.has_stream:
        close_stream(space, run, row.closes_stream, override=row.closes_stream == "reclaimed")
    if run.lifecycle_phase is Phase.SUSPENDED:
        close_suspension(space, run, ending.suspension_reason)
    if run.pending_waitpoints:
        close_waitpoints(space, run, [pending for pending, _ in run.pending_waitpoints], "execution_ended")
    assert row.attempt_life is not None
    attempt = end_attempt(
        space,
        run,
        row.attempt_life,
        reason=ending.attempt_reason,
        category=ending.category,
        **ending.attempt_changes,
    )
    ended = move(run, row, space.now, **ending.changes)
    ended.attempt = attempt
    if row.to.attempt is None and attempt.index >= 0:
        ended.attempt_state = AttemptState.TERMINAL
    ended.completed_at = space.now
    drop_lease(ended)
    clear_waiting(ended)
    clear_lineage(ended)
    ended.attempt_deadline_at = ended.attempt_timeout_remaining_ms = ended.suspension_timeout_at = 0
    ended.pending_waitpoints = ()
    space.put_execution(
        ended,
        row.event,
        Cause(ending.actor, ending.reason, lease_details(run) if run.current_lease_id else ()),
        before=run.public_state,
    )
    run_followers(space, ended)
    return ended
