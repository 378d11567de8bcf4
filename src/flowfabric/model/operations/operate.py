"""Change the priority and tags of executions; pause, block and replay them."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from flowfabric.model import checks
from flowfabric.model.command import ExecutionCommand
from flowfabric.model.errors import NotFound, invalid, refuse
from flowfabric.model.limits import MAX_INT, MAX_NAME_BYTES, MAX_TAGS, MAX_TEXT_BYTES
from flowfabric.model.machine.group import step
from flowfabric.model.machine.holding import not_active
from flowfabric.model.machine.workspace import Cause, Workspace
from flowfabric.model.operations.create import clamp_priority
from flowfabric.model.operations.step import heads_of
from flowfabric.model.record_kinds import STEP
from flowfabric.model.records import Execution
from flowfabric.model.state import AttemptState, Blocking, Eligibility, Outcome, Phase, Public
from flowfabric.model.transitions import (
    BLOCKED,
    PAUSED,
    REPLAYED,
    REPLAYED_SKIPPED,
    UNBLOCKED,
    UNPAUSED,
    move,
)


class PriorityChanged(Struct, frozen=True):
    """The priority before and after."""

    old: int
    new: int


class ChangePriority(ExecutionCommand[PriorityChanged], frozen=True, kw_only=True):
    """Change the priority of anything that has not ended."""

    priority: int

    def check(self) -> None:
        """Check the number; it is clamped, not refused, outside 0..9000."""
        super().check()
        checks.integer("priority", self.priority, -MAX_INT, MAX_INT)


@step(ChangePriority)
def change_priority(space: Workspace, command: ChangePriority) -> PriorityChanged:
    """Store a new priority; the order of a queue follows from the record."""
    run = space.execution(command.execution_id)
    if run.lifecycle_phase is Phase.TERMINAL:
        raise refuse("execution_not_eligible")
    new = clamp_priority(command.priority)
    changed = replace(run, priority=new, last_mutation_at=space.now)
    space.put_execution(
        changed,
        "priority_changed",
        Cause(command.actor, details=(("old", str(run.priority)), ("new", str(new)))),
        before=run.public_state,
    )
    return PriorityChanged(run.priority, new)


class TagsSet(Struct, frozen=True):
    """How many tags were written."""

    count: int


class SetTags(ExecutionCommand[TagsSet], frozen=True, kw_only=True):
    """Merge tags into those of an execution, in any phase."""

    tags: tuple[tuple[str, str], ...]

    def check(self) -> None:
        """Check that there are tags and that each is well formed."""
        super().check()
        if not self.tags:
            raise invalid("tags", "send at least one tag")
        if self.tags != checks.tags(dict(self.tags)):
            raise invalid("tags", "send each key once, in sorted order")


@step(SetTags)
def set_tags(space: Workspace, command: SetTags) -> TagsSet:
    """Merge tags; allowed in every phase."""
    run = space.execution(command.execution_id)
    merged = dict(run.tags) | dict(command.tags)
    if len(merged) > MAX_TAGS:
        raise invalid("tags", f"an execution has at most {MAX_TAGS} tags")
    tagged = replace(run, tags=tuple(sorted(merged.items())), last_mutation_at=space.now)
    space.put_execution(tagged, "tagged", Cause(command.actor, details=command.tags), before=run.public_state)
    return TagsSet(len(command.tags))


class Paused(Struct, frozen=True):
    """Paused, or paused already."""


class Pause(ExecutionCommand[Paused], frozen=True, kw_only=True):
    """Hold back a runnable execution until an operator lets it go."""

    reason: str = ""

    def check(self) -> None:
        """Check the reason."""
        super().check()
        checks.text("reason", self.reason, max_bytes=MAX_TEXT_BYTES, empty=True)


@step(Pause)
def pause(space: Workspace, command: Pause) -> Paused:
    """T28: hold any runnable execution back."""
    run = space.execution(command.execution_id)
    if run.lifecycle_phase is not Phase.RUNNABLE:
        raise refuse("execution_not_eligible")
    if run.eligibility_state is Eligibility.OPERATOR:
        return Paused()
    paused = move(
        run,
        PAUSED,
        space.now,
        paused_at=space.now,
        blocked_at=space.now,
        blocking_detail=command.reason,
        grant=(),
    )
    space.put_execution(paused, PAUSED.event, Cause(command.actor, command.reason), before=run.public_state)
    return Paused()


class Unpaused(Struct, frozen=True):
    """Unpaused, or never paused."""


class Unpause(ExecutionCommand[Unpaused], frozen=True, kw_only=True):
    """Let a paused execution go on."""


@step(Unpause)
def unpause(space: Workspace, command: Unpause) -> Unpaused:
    """T29: let it go on from wherever its record says."""
    run = space.execution(command.execution_id)
    if run.lifecycle_phase is not Phase.RUNNABLE:
        raise refuse("execution_not_eligible")
    if run.eligibility_state is not Eligibility.OPERATOR:
        return Unpaused()
    unpaused = move(
        run, UNPAUSED, space.now, **_derived(run, space.now), paused_at=0, blocked_at=0, blocking_detail=""
    )
    space.put_execution(unpaused, UNPAUSED.event, Cause(command.actor), before=run.public_state)
    return Unpaused()


def _derived(run: Execution, now: int) -> dict[str, Any]:
    if run.delay_until <= now:
        return {"eligibility_state": Eligibility.NOW, "blocking_reason": Blocking.WORKER, "delay_until": 0}
    reason = Blocking.DELAY
    if run.attempt_state is AttemptState.PENDING_RETRY:
        reason = Blocking.RETRY_BACKOFF
    elif run.current_suspension_id:
        reason = Blocking.RESUME_DELAY
    return {"eligibility_state": Eligibility.UNTIL_TIME, "blocking_reason": reason}


BLOCKS: Final = {
    Blocking.BUDGET: Eligibility.BUDGET,
    Blocking.QUOTA: Eligibility.QUOTA,
    Blocking.CAPABLE_WORKER: Eligibility.ROUTE,
    Blocking.OPERATOR: Eligibility.OPERATOR,
    Blocking.POLICY: Eligibility.LANE,
}
"""The reasons of admission, and the eligibility that each leads to."""


class Blocked(Struct, frozen=True):
    """Where the block left it."""

    public_state: Public


class Block(ExecutionCommand[Blocked], frozen=True, kw_only=True):
    """Hold eligible work back for a reason of admission (T28)."""

    blocking_reason: str
    blocking_detail: str = ""

    def check(self) -> None:
        """Check the texts; whether the reason may block is judged with the record."""
        super().check()
        checks.text("blocking_reason", self.blocking_reason, max_bytes=MAX_NAME_BYTES, empty=True)
        checks.text("blocking_detail", self.blocking_detail, max_bytes=MAX_TEXT_BYTES, empty=True)


@step(Block)
def block(space: Workspace, command: Block) -> Blocked:
    """T28: hold eligible work back for a reason of admission."""
    run = space.execution(command.execution_id)
    if run.lifecycle_phase is Phase.TERMINAL:
        raise not_active(run)
    if run.lifecycle_phase is not Phase.RUNNABLE:
        raise refuse("execution_not_eligible")
    eligibility = BLOCKS.get(command.blocking_reason)  # type: ignore[call-overload]
    if eligibility is None:
        raise refuse("invalid_blocking_reason", command.blocking_reason, field="blocking_reason")
    if run.eligibility_state is not Eligibility.NOW:
        raise refuse("execution_not_eligible")
    blocked = move(
        run,
        BLOCKED,
        space.now,
        eligibility_state=eligibility,
        blocking_reason=Blocking(command.blocking_reason),
        blocking_detail=command.blocking_detail,
        blocked_at=space.now,
        grant=(),
    )
    space.put_execution(
        blocked, BLOCKED.event, Cause(command.actor, command.blocking_reason), before=run.public_state
    )
    return Blocked(blocked.public_state)


class Unblock(ExecutionCommand[Blocked], frozen=True, kw_only=True):
    """Let blocked work go on (T29), if it is still blocked for the expected reason."""

    expected_blocking_reason: str = ""


@step(Unblock)
def unblock(space: Workspace, command: Unblock) -> Blocked:
    """T29: let blocked work go on."""
    run = space.execution(command.execution_id)
    expected = command.expected_blocking_reason
    if (
        run.lifecycle_phase is not Phase.RUNNABLE
        or run.eligibility_state not in BLOCKS.values()
        or (expected and run.blocking_reason != expected)
    ):
        raise refuse("execution_not_eligible")
    free = move(run, UNBLOCKED, space.now, blocking_detail="", blocked_at=0, paused_at=0, delay_until=0)
    space.put_execution(
        free, UNBLOCKED.event, Cause(command.actor, run.blocking_reason), before=run.public_state
    )
    return Blocked(free.public_state)


class Replayed(Struct, frozen=True):
    """The execution runs once more."""

    public_state: Public


class Replay(ExecutionCommand[Replayed], frozen=True, kw_only=True):
    """Start an ended execution again (T26, T27); steps start clean unless kept."""

    reason: str = ""
    requested_by: str = ""
    keep_steps: bool = False
    from_step: str = ""
    """Keep the steps that were called before this one."""

    def check(self) -> None:
        """Check the texts, and that only one way of keeping steps is asked for."""
        super().check()
        checks.text("reason", self.reason, max_bytes=MAX_TEXT_BYTES, empty=True)
        checks.text("requested_by", self.requested_by, max_bytes=MAX_NAME_BYTES, empty=True)
        checks.text("from_step", self.from_step, max_bytes=MAX_NAME_BYTES, empty=True)
        if self.keep_steps and self.from_step:
            raise invalid("from_step", "give keep_steps or from_step, not both")


@step(Replay)
def replay(space: Workspace, command: Replay) -> Replayed:
    """T26, T27: an ended execution starts again, with its retries and reclaims to use anew."""
    run = space.execution(command.execution_id)
    if run.lifecycle_phase is not Phase.TERMINAL:
        raise refuse("execution_not_terminal")
    if run.replay_count >= run.policy.max_replay_count:
        raise refuse("max_replays_exhausted", str(run.policy.max_replay_count))
    row = REPLAYED_SKIPPED if run.terminal_outcome is Outcome.SKIPPED and run.flow_id else REPLAYED
    replayed = move(
        run,
        row,
        space.now,
        replay_count=run.replay_count + 1,
        retry_count=0,
        lease_reclaim_count=0,
        completed_at=0,
        **_kept_steps(space, run, command),
        current_attempt_id="",
        current_suspension_id="",
        current_waitpoint_id="",
        progress_pct=-1,
        progress_message="",
        progress_updated_at=0,
        execution_deadline_at=run.execution_deadline_at if run.execution_deadline_at > space.now else 0,
        pending_lineage_reason=command.reason or "replay",
        pending_requested_by=command.requested_by or command.actor,
        pending_previous_index=run.attempt.index,
    )
    space.put_execution(
        replayed,
        row.event,
        Cause(command.actor, command.reason, (("replay_count", str(replayed.replay_count)), *_kept(command))),
        before=run.public_state,
    )
    return Replayed(replayed.public_state)


def _kept(command: Replay) -> tuple[tuple[str, str], ...]:
    """Say which steps the replay keeps: readers of streams show what those have emitted."""
    if command.keep_steps:
        return (("keep_steps", "true"),)
    return (("from_step", command.from_step),) if command.from_step else ()


def _kept_steps(space: Workspace, run: Execution, command: Replay) -> dict[str, int]:
    """Drop the steps that the new run must do again, and say what the record knows of those that stay."""
    if command.keep_steps:
        return {}
    if not command.from_step:
        if run.step_count:
            space.emit("drop_steps", run.execution_id)
        return {"step_count": 0, "next_step_index": 0}
    heads = heads_of(space, run.execution_id)
    first = next((head.call_index for head in heads if head.name == command.from_step), None)
    if first is None:
        raise NotFound(f"no step named {command.from_step} is stored", field="from_step")
    dropped = [head for head in heads if head.call_index >= first]
    for head in dropped:
        space.put(STEP, run.execution_id, head.name, value=None)
    return {"step_count": len(heads) - len(dropped), "next_step_index": first}
