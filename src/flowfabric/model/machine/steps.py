"""Durable steps: results that outlive the attempt that made them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from flowfabric.model.contracts.lease import StepView
from flowfabric.model.contracts.reads import StepHead
from flowfabric.model.contracts.streams import PutStep, StepExisting, StepStored
from flowfabric.model.errors import refuse
from flowfabric.model.limits import MAX_STEPS
from flowfabric.model.machine.lease import actor_of, hold
from flowfabric.model.machine.workspace import Workspace, step
from flowfabric.model.records import Step


@step(PutStep)
def put_step(space: Workspace, command: PutStep) -> StepStored | StepExisting:
    """Store the first result of a step; every later one, also a repeat of the first, gets what is stored."""
    run = hold(space, command)
    known: Step | None = space.get("step", run.execution_id, command.step_name)
    if known is not None:
        return StepExisting(known.result, known.encoding)
    if run.step_count >= MAX_STEPS:
        raise refuse("step_limit_exceeded", str(MAX_STEPS))
    call_index = run.next_step_index if command.call_index is None else command.call_index
    space.put(
        "step", run.execution_id, command.step_name,
        value=Step(
            command.step_name, call_index, run.attempt.index, space.now, command.encoding, command.result
        ),
    )  # fmt: skip
    space.put_execution(
        replace(
            run,
            step_count=run.step_count + 1,
            next_step_index=max(run.next_step_index, call_index + 1),
            last_mutation_at=space.now,
        ),
        "step",
        actor=actor_of(run, command),
        before=run.public_state,
        details=(("name", command.step_name),),
    )
    return StepStored()


def head_of(each: Step) -> StepHead:
    """Say of a step all but its result."""
    return StepHead(each.name, each.call_index, each.at, each.encoding, len(each.result))


def step_view(each: Step) -> StepView:
    """Show a stored step."""
    return StepView(each.name, each.call_index, each.at, each.encoding, each.result)


def heads_of(space: Workspace, execution_id: str) -> list[StepHead]:
    """Return the heads of all steps in the order of their calls, those that this group has written among them."""
    heads = {head.name: head for head in space.get("heads", execution_id)}
    for key in space.written("step", execution_id):
        heads.pop(key[1], None)
        step: Step | None = space.get("step", *key)
        if step is not None:
            heads[key[1]] = head_of(step)
    return sorted(heads.values(), key=lambda head: (head.call_index, head.name))


def first_that_fit(heads: Iterable[StepHead], room: int) -> list[StepHead]:
    """Return the first steps whose results have room together."""
    fitting = []
    for head in heads:
        room -= head.size
        if room < 0:
            break
        fitting.append(head)
    return fitting
