"""End an execution, in whichever way."""

from __future__ import annotations

from typing import Any

from flowfabric.model.machine.attempt import clear_lineage, clear_waiting, end_attempt
from flowfabric.model.machine.closing import close_stream, close_suspension, close_waitpoints
from flowfabric.model.machine.holding import drop_lease, lease_details
from flowfabric.model.machine.workspace import Workspace
from flowfabric.model.records import Execution
from flowfabric.model.state import AttemptState, Phase
from flowfabric.model.transitions import Transition, move


def finish(
    space: Workspace,
    run: Execution,
    row: Transition,
    *,
    actor: str,
    reason: str = "",
    attempt_reason: str = "",
    category: str = "",
    suspension_reason: str = "",
    attempt_changes: dict[str, Any] | None = None,
    **changes: Any,
) -> Execution:
    """End an execution in any way: its attempt, its stream, its waits, and every time that was running."""
    if run.has_stream:
        close_stream(space, run, row.closes_stream, override=row.closes_stream == "reclaimed")
    if run.lifecycle_phase is Phase.SUSPENDED:
        close_suspension(space, run, suspension_reason)
    if run.pending_waitpoints:
        close_waitpoints(space, run, [pending for pending, _ in run.pending_waitpoints], "execution_ended")
    assert row.attempt_life is not None
    attempt = end_attempt(
        space, run, row.attempt_life, reason=attempt_reason, category=category, **(attempt_changes or {})
    )
    ended = move(run, row, space.now, **changes)
    ended.attempt = attempt
    if row.to.attempt is None and attempt.index >= 0:
        ended.attempt_state = AttemptState.TERMINAL
    ended.completed_at = space.now
    drop_lease(ended)
    clear_waiting(ended)
    clear_lineage(ended)
    ended.attempt_deadline_at = ended.attempt_timeout_remaining_ms = ended.suspension_timeout_at = 0
    ended.pending_waitpoints = ()
    return space.put_execution(
        ended, row.event, actor=actor, before=run.public_state, reason=reason,
        details=lease_details(run) if run.current_lease_id else (),
    )  # fmt: skip
