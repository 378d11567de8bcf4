"""What time does to suspensions and to waitpoints that nobody used."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from flowfabric.model.contracts.upkeep import ExpireSuspension, ExpireWaitpoints, Swept
from flowfabric.model.machine.lease import TIMER, finish, waitpoints_of
from flowfabric.model.machine.resume import end_suspension, open_suspension
from flowfabric.model.machine.suspend import AUTO_RESUME
from flowfabric.model.machine.waitpoints import NEVER_USED, drop_pending
from flowfabric.model.machine.workspace import Workspace, step
from flowfabric.model.records import Execution, Suspension, Waitpoint
from flowfabric.model.state import Phase
from flowfabric.model.transitions import T22_CANCEL, T22_EXPIRE, T22_FAIL, T23, move

_ENDS: Final = {"fail": T22_FAIL, "cancel": T22_CANCEL, "expire": T22_EXPIRE}


@step(ExpireSuspension)
def expire_suspension(space: Workspace, command: ExpireSuspension) -> Swept:
    """T20, T22, T23: a suspension whose time is over does what it was told to do then."""
    run: Execution | None = space.get("execution", command.execution_id)
    if run is None:
        return Swept("not_found_cleaned")
    if run.lifecycle_phase is not Phase.SUSPENDED:
        return Swept("not_suspended_cleaned", run.public_state)
    suspension = open_suspension(space, run)
    if suspension is None:
        return Swept("no_active_suspension_cleaned", run.public_state)
    if not run.suspension_timeout_at or run.suspension_timeout_at > space.now:
        return Swept("not_yet_due", run.public_state)
    behavior = suspension.timeout_behavior
    if behavior == AUTO_RESUME:
        resumed = end_suspension(space, run, "timed_out_auto_resume", actor=TIMER)
        return Swept("auto_resume", resumed.public_state)
    if behavior == "escalate":
        return Swept(behavior, _escalate(space, run, suspension).public_state)
    reason = f"suspension_timeout:{behavior}"
    ended = finish(
        space, run, _ENDS[behavior], actor=TIMER, reason=reason, attempt_reason=reason, category="timeout",
        suspension_reason=f"timed_out_{behavior}", failure_reason=reason, failure_category="timeout",
    )  # fmt: skip
    return Swept(behavior, ended.public_state)


def _escalate(space: Workspace, run: Execution, suspension: Suspension) -> Execution:
    """T23: wait on without a time, for an operator; signals still count."""
    waiting = replace(suspension, timeout_at=0, reason_code="waiting_for_operator_review")
    space.put("suspension", run.execution_id, value=waiting)
    keys = [(run.execution_id, waitpoint_id) for waitpoint_id in waitpoints_of(suspension)]
    waitpoints: list[Waitpoint] = space.several("waitpoint", keys)
    for waitpoint in waitpoints:
        # They expired with the timeout, which is no more.
        space.put(
            "waitpoint", run.execution_id, waitpoint.waitpoint_id, value=replace(waitpoint, expires_at=0)
        )
    escalated = move(run, T23, space.now, suspension_timeout_at=0)
    return space.put_execution(
        escalated, T23.event, actor=TIMER, before=run.public_state,
        details=(("suspension_id", suspension.suspension_id),),
    )  # fmt: skip


@step(ExpireWaitpoints)
def expire_waitpoints(space: Workspace, command: ExpireWaitpoints) -> Swept:
    """Close pending waitpoints whose time is over."""
    run: Execution | None = space.get("execution", command.execution_id)
    if run is None:
        return Swept("not_found_cleaned")
    over = tuple(waitpoint_id for waitpoint_id, at in run.pending_waitpoints if at <= space.now)
    if not over:
        return Swept("not_yet_due", run.public_state)
    return Swept("closed", drop_pending(space, run, over, NEVER_USED, actor=TIMER).public_state)
