"""What operators do: revoke, pause, block, replay."""

from __future__ import annotations

from typing import Any, Final

from flowfabric.model.contracts.create import (
    AlreadySatisfied,
    Block,
    Blocked,
    OpenLane,
    Pause,
    Paused,
    PauseLane,
    Replay,
    Replayed,
    Revoked,
    RevokeLease,
    Unblock,
    Unpause,
    Unpaused,
    UnpauseLane,
)
from flowfabric.model.errors import NotFound, refuse
from flowfabric.model.machine.lease import lease_details, not_active
from flowfabric.model.machine.steps import heads_of
from flowfabric.model.machine.workspace import Workspace, step
from flowfabric.model.records import VERSION, Execution, Lane
from flowfabric.model.state import AttemptState, Blocking, Eligibility, Outcome, Ownership, Phase
from flowfabric.model.transitions import T9, T26, T27, T28, T28_PAUSE, T29, T29_UNPAUSE, move

BLOCKS: Final = {
    Blocking.BUDGET: Eligibility.BUDGET,
    Blocking.QUOTA: Eligibility.QUOTA,
    Blocking.CAPABLE_WORKER: Eligibility.ROUTE,
    Blocking.OPERATOR: Eligibility.OPERATOR,
    Blocking.POLICY: Eligibility.LANE,
}
"""The reasons of admission, and the eligibility that each leads to."""


@step(RevokeLease)
def revoke_lease(space: Workspace, command: RevokeLease) -> Revoked | AlreadySatisfied:
    """T9: the holder loses its lease; the work can be claimed again."""
    run = space.execution(command.execution_id)
    if run.lifecycle_phase is not Phase.ACTIVE:
        return AlreadySatisfied("no_active_lease")
    if run.ownership_state is Ownership.REVOKED:
        return AlreadySatisfied("already_revoked")
    if run.ownership_state is Ownership.EXPIRED:
        return AlreadySatisfied("already_expired")
    if command.expected_lease_id and command.expected_lease_id != run.current_lease_id:
        raise refuse("stale_lease", text="the lease is another one by now", field="expected_lease_id")
    revoked = move(
        run,
        T9,
        space.now,
        lease_revoked_at=space.now,
        lease_revoke_reason=command.reason,
        lease_end="revoked",
    )
    space.put_execution(
        revoked, T9.event, actor=command.actor, before=run.public_state, reason=command.reason,
        details=lease_details(run),
    )  # fmt: skip
    return Revoked(run.current_lease_id, run.current_lease_epoch)


@step(Pause)
def pause(space: Workspace, command: Pause) -> Paused:
    """T28: hold any runnable execution back."""
    run = space.execution(command.execution_id)
    if run.lifecycle_phase is not Phase.RUNNABLE:
        raise refuse("execution_not_eligible")
    if run.eligibility_state is Eligibility.OPERATOR:
        return Paused()
    paused = move(
        run, T28_PAUSE, space.now, paused_at=space.now, blocked_at=space.now, blocking_detail=command.reason,
        grant=(),
    )  # fmt: skip
    space.put_execution(
        paused, T28_PAUSE.event, actor=command.actor, before=run.public_state, reason=command.reason
    )
    return Paused()


@step(Unpause)
def unpause(space: Workspace, command: Unpause) -> Unpaused:
    """T29: let it go on from wherever its record says."""
    run = space.execution(command.execution_id)
    if run.lifecycle_phase is not Phase.RUNNABLE:
        raise refuse("execution_not_eligible")
    if run.eligibility_state is not Eligibility.OPERATOR:
        return Unpaused()
    unpaused = move(
        run, T29_UNPAUSE, space.now, **_derived(run, space.now), paused_at=0, blocked_at=0, blocking_detail=""
    )
    space.put_execution(unpaused, T29_UNPAUSE.event, actor=command.actor, before=run.public_state)
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
        run, T28, space.now, eligibility_state=eligibility, blocking_reason=Blocking(command.blocking_reason),
        blocking_detail=command.blocking_detail, blocked_at=space.now, grant=(),
    )  # fmt: skip
    space.put_execution(
        blocked, T28.event, actor=command.actor, before=run.public_state, reason=command.blocking_reason
    )
    return Blocked(blocked.public_state)


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
    free = move(run, T29, space.now, blocking_detail="", blocked_at=0, paused_at=0, delay_until=0)
    space.put_execution(
        free, T29.event, actor=command.actor, before=run.public_state, reason=run.blocking_reason
    )
    return Blocked(free.public_state)


@step(PauseLane)
def pause_lane(space: Workspace, command: PauseLane) -> Paused:
    """Stop claims on a lane; what waits there shows it when read."""
    lane: Lane | None = space.get("lane", command.lane_id)
    if lane is None or not lane.paused_at:
        paused = Lane(VERSION, command.lane_id, space.now, command.reason)
        space.put("lane", command.lane_id, value=paused)
    return Paused()


@step(OpenLane)
def open_lane(space: Workspace, command: OpenLane) -> Unpaused | Paused:
    """Write a lane down, so that everybody lists it; say whether claims may take from it."""
    lane: Lane | None = space.get("lane", command.lane_id)
    if lane is None:
        space.put("lane", command.lane_id, value=Lane(VERSION, command.lane_id))
    return Paused() if lane is not None and lane.paused_at else Unpaused()


@step(UnpauseLane)
def unpause_lane(space: Workspace, command: UnpauseLane) -> Unpaused:
    """Allow claims on a lane again."""
    lane: Lane | None = space.get("lane", command.lane_id)
    if lane is not None and lane.paused_at:
        space.put("lane", command.lane_id, value=Lane(VERSION, command.lane_id))
    return Unpaused()


@step(Replay)
def replay(space: Workspace, command: Replay) -> Replayed:
    """T26, T27: an ended execution starts again, with its retries and reclaims to use anew."""
    run = space.execution(command.execution_id)
    if run.lifecycle_phase is not Phase.TERMINAL:
        raise refuse("execution_not_terminal")
    if run.replay_count >= run.policy.max_replay_count:
        raise refuse("max_replays_exhausted", str(run.policy.max_replay_count))
    row = T27 if run.terminal_outcome is Outcome.SKIPPED and run.flow_id else T26
    replayed = move(
        run, row, space.now, replay_count=run.replay_count + 1, retry_count=0, lease_reclaim_count=0, completed_at=0,
        **_kept_steps(space, run, command), current_attempt_id="", current_suspension_id="",
        current_waitpoint_id="", progress_pct=-1, progress_message="", progress_updated_at=0,
        execution_deadline_at=run.execution_deadline_at if run.execution_deadline_at > space.now else 0,
        pending_lineage_reason=command.reason or "replay",
        pending_requested_by=command.requested_by or command.actor, pending_previous_index=run.attempt.index,
    )  # fmt: skip
    space.put_execution(
        replayed, row.event, actor=command.actor, before=run.public_state, reason=command.reason,
        details=(("replay_count", str(replayed.replay_count)), *_kept(command)),
    )  # fmt: skip
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
        space.put("step", run.execution_id, head.name, value=None)
    return {"step_count": len(heads) - len(dropped), "next_step_index": first}
