"""Resume a suspended execution as an operator, and read a suspension."""

from __future__ import annotations

from msgspec import Struct

from flowfabric.model import checks
from flowfabric.model.command import ExecutionCommand, ExecutionQuestion, ReadRequest
from flowfabric.model.errors import refuse
from flowfabric.model.limits import MAX_INT
from flowfabric.model.machine.group import step
from flowfabric.model.machine.suspension import end_suspension, open_suspension
from flowfabric.model.machine.workspace import Workspace
from flowfabric.model.record_kinds import SUSPENSION
from flowfabric.model.records import Suspension
from flowfabric.model.state import Phase, Public


class Resumed(Struct, frozen=True):
    """The execution goes on."""

    public_state: Public


class ResumeExecution(ExecutionCommand[Resumed], frozen=True, kw_only=True):
    """Resume a suspended execution as an operator (T20, T21)."""

    resume_delay_ms: int = 0

    def check(self) -> None:
        """Check the delay."""
        super().check()
        checks.integer("resume_delay_ms", self.resume_delay_ms, 0, MAX_INT)

    def reads(self) -> tuple[ReadRequest, ...]:
        """The execution and its suspension."""
        return (*super().reads(), (SUSPENSION, (self.execution_id,)))


@step(ResumeExecution)
def resume_execution(space: Workspace, command: ResumeExecution) -> Resumed:
    """T20, T21: an operator ends the wait, whatever its condition, unless that forbids it."""
    run = space.execution(command.execution_id)
    suspension = open_suspension(space, run) if run.lifecycle_phase is Phase.SUSPENDED else None
    if suspension is None:
        raise refuse("execution_not_suspended")
    if not suspension.condition.operator_override:
        raise refuse("resume_condition_not_met")
    resumed = end_suspension(
        space, run, "resumed_by_operator", actor=command.actor, delay_ms=command.resume_delay_ms
    )
    return Resumed(resumed.public_state)


class GetSuspension(ExecutionQuestion[Suspension | None], frozen=True, kw_only=True):
    """Return the current or last suspension."""


@step(GetSuspension)
def get_suspension(space: Workspace, question: GetSuspension) -> Suspension | None:
    """Return the current or last suspension."""
    run = space.execution(question.execution_id)
    return space.get(SUSPENSION, run.execution_id)
