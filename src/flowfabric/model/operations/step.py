"""Store the results of durable steps, and list them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from flowfabric.model import checks
from flowfabric.model.command import ExecutionQuestion, HolderCommand, Page, ReadRequest, check_limit
from flowfabric.model.errors import invalid, refuse
from flowfabric.model.limits import MAX_INT, MAX_NAME_BYTES, MAX_STEP_BYTES, MAX_STEP_BYTES_IN_PAGE, MAX_STEPS
from flowfabric.model.machine.group import step
from flowfabric.model.machine.holding import actor_of, hold
from flowfabric.model.machine.workspace import Cause, Workspace
from flowfabric.model.record_kinds import STEP, IndexQuery
from flowfabric.model.records import Step
from flowfabric.model.views import StepHead, StepView, head_of, step_view


class StepStored(Struct, frozen=True):
    """This result is the step's result from now on."""


class StepExisting(Struct, frozen=True):
    """The step had a result already; it stands."""

    result: bytes
    encoding: str


class PutStep(HolderCommand[StepStored | StepExisting], frozen=True, kw_only=True):
    """Store the result of a durable step; the first writer wins."""

    step_name: str
    result: bytes
    encoding: str = "json"
    call_index: int | None = None
    """Its place among the calls of the handler; none: after those that are stored."""

    def check(self) -> None:
        """Check name, size and place."""
        super().check()
        checks.name("step_name", self.step_name)
        checks.payload("result", self.result, MAX_STEP_BYTES)
        checks.text("encoding", self.encoding, max_bytes=MAX_NAME_BYTES, empty=True)
        if self.call_index is not None:
            checks.integer("call_index", self.call_index, 0, MAX_STEPS)

    def reads(self) -> tuple[ReadRequest, ...]:
        """The execution and the step."""
        return (*super().reads(), (STEP, (self.execution_id, self.step_name)))


@step(PutStep)
def put_step(space: Workspace, command: PutStep) -> StepStored | StepExisting:
    """Store the first result of a step; every later one, also a repeat of the first, gets what is stored."""
    run = hold(space, command)
    known = space.get(STEP, run.execution_id, command.step_name)
    if known is not None:
        return StepExisting(known.result, known.encoding)
    if run.step_count >= MAX_STEPS:
        raise refuse("step_limit_exceeded", str(MAX_STEPS))
    call_index = run.next_step_index if command.call_index is None else command.call_index
    space.put(
        STEP,
        run.execution_id,
        command.step_name,
        value=Step(
            command.step_name, call_index, run.attempt.index, space.now, command.encoding, command.result
        ),
    )
    space.put_execution(
        replace(
            run,
            step_count=run.step_count + 1,
            next_step_index=max(run.next_step_index, call_index + 1),
            last_mutation_at=space.now,
        ),
        "step",
        Cause(actor_of(run, command), details=(("name", command.step_name),)),
        before=run.public_state,
    )
    return StepStored()


HEADS: Final[IndexQuery[tuple[StepHead, ...]]] = IndexQuery("heads")
"""All stored steps of an execution, in the order of their calls."""


def heads_of(space: Workspace, execution_id: str) -> list[StepHead]:
    """Return the heads of all steps in the order of their calls, those that this group has written among them."""
    heads = {head.name: head for head in space.get(HEADS, execution_id)}
    for key in space.written(STEP, execution_id):
        heads.pop(key[1], None)
        step = space.get(STEP, *key)
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


class ListedStep(StepHead, frozen=True):
    """A stored step in a list; `result` is none where it did not fit."""

    result: bytes | None = None


class StepPage(Page, frozen=True):
    """Steps in the order of their calls; `next` is the call and the name of the last one, or nothing."""

    steps: tuple[ListedStep, ...]
    next: tuple[int, str] | None


class ListSteps(ExecutionQuestion[StepPage], frozen=True, kw_only=True):
    """Return stored steps in the order of their calls, the first results of the page with them."""

    after: tuple[int, str] = (-1, "")
    """Call and name of the last step that was seen."""
    limit: int = 1_000
    max_bytes: int = 0
    """How many bytes of results may come along; 0 for none."""

    def check(self) -> None:
        """Check cursor, limit and size."""
        super().check()
        if len(self.after) != 2:
            raise invalid("after", "give the call and the name of the last step that was seen")
        checks.integer("after", self.after[0], -1, MAX_INT)
        checks.text("after", self.after[1], max_bytes=MAX_NAME_BYTES, empty=True)
        check_limit(self.limit)
        checks.integer("max_bytes", self.max_bytes, 0, MAX_STEP_BYTES_IN_PAGE)


STEPS: Final[IndexQuery[tuple[StepHead, ...]]] = IndexQuery("steps")


@step(ListSteps)
def list_steps(space: Workspace, question: ListSteps) -> StepPage:
    """Return a page of stored steps; one more than was asked for says that there is a next page.

    Results are read for those alone whose results fit.
    """
    run = space.execution(question.execution_id)
    heads = space.get(STEPS, run.execution_id, *question.after, question.limit + 1)
    shown = heads[: question.limit]
    fitting = first_that_fit(shown, question.max_bytes) if question.max_bytes else []
    found = space.several(STEP, ((run.execution_id, each.name) for each in fitting))
    results = {each.name: each.result for each in found if each is not None}
    last = shown[-1] if len(heads) > len(shown) else None
    return StepPage(
        tuple(ListedStep(**asdict(each), result=results.get(each.name)) for each in shown),
        None if last is None else (last.call_index, last.name),
    )


class GetStep(ExecutionQuestion[StepView | None], frozen=True, kw_only=True):
    """Return one stored step, or nothing."""

    step_name: str

    def check(self) -> None:
        """Check the name."""
        super().check()
        checks.name("step_name", self.step_name)


@step(GetStep)
def get_step(space: Workspace, question: GetStep) -> StepView | None:
    """Return one stored step."""
    run = space.execution(question.execution_id)
    found = space.get(STEP, run.execution_id, question.step_name)
    return None if found is None else step_view(found)
