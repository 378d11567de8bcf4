"""Claims: finding the best work of some lanes, and handing it out whole."""

from __future__ import annotations

from msgspec.structs import replace

from flowfabric.model.contracts.base import Fence
from flowfabric.model.contracts.lease import Claim, Claimed, Resume, SignalView, StepView, Task
from flowfabric.model.contracts.reads import FindClaimable
from flowfabric.model.ids import ATTEMPT, LEASE, NEXT, mint
from flowfabric.model.indexes import score
from flowfabric.model.limits import DEFAULT_MAX_RECLAIMS, MAX_STEP_BYTES_IN_TASK
from flowfabric.model.machine.lease import (
    TIMER,
    Lease,
    begin_attempt,
    close_stream,
    end_attempt,
    finish,
    resume_attempt,
)
from flowfabric.model.machine.steps import first_that_fit, heads_of, step_view
from flowfabric.model.machine.workspace import Workspace, step
from flowfabric.model.records import Attempt, Execution, Payload, Signal, Step, Suspension
from flowfabric.model.state import AttemptState, Life, Ownership, Phase
from flowfabric.model.transitions import T5, T11, T12

RESUME_REASONS = {"resumed": "signal", "resumed_by_operator": "operator", "timed_out_auto_resume": "timeout"}
_ATTEMPT_KINDS = {AttemptState.PENDING_RETRY: "retry", AttemptState.PENDING_REPLAY: "replay"}


@step(Claim)
def claim(space: Workspace, command: Claim) -> Claimed:
    """T5, T6, T11: lease the best claimable work that this worker may run."""
    space.emit("seen", command.worker_instance_id, value=command)
    if command.claim_id:
        held = space.leases(command.worker_instance_id, command.claim_id)
        living = [
            run for run in held
            if run.lease_expires_at > space.now and command.namespace in {"", run.namespace}
        ]  # fmt: skip
        if living:
            living.sort(key=lambda run: (score(run), run.execution_id))  # the order of the first answer
            space.several("payload", [(run.execution_id,) for run in living])
            return Claimed(tuple(task_of(space, run) for run in living))
    routes = space.routes(command.lanes, command.capabilities, command.kinds)
    tasks: list[Task] = []
    base = command.mint
    while routes and len(tasks) < command.max_tasks:
        # One question for all that is still wanted; executions that end at their cap make room for others.
        runs = space.best(routes, command.namespace, command.max_tasks - len(tasks))
        if not runs:
            break
        for run in runs:
            lease = Lease(
                command.worker_id,
                command.worker_instance_id,
                mint(base, LEASE),
                command.lease_ttl_ms,
                command.claim_id,
            )
            begun = take(space, run, mint(base, ATTEMPT), lease)
            if begun is not None:
                tasks.append(task_of(space, begun))
                base = mint(base, NEXT)
    return Claimed(tuple(tasks))


@step(FindClaimable)
def find_claimable(space: Workspace, question: FindClaimable) -> tuple[str, ...]:
    """Return the best eligible work of a lane; active work whose lease is gone is no matter of claim grants."""
    routes = space.routes((question.lane_id,), question.capabilities, None)
    count = question.limit
    while True:
        runs = space.best(routes, question.namespace, count) if routes else []
        eligible = [run.execution_id for run in runs if run.lifecycle_phase is Phase.RUNNABLE]
        if len(eligible) >= question.limit or len(runs) < count:
            return tuple(eligible[: question.limit])
        count *= 2


def take(space: Workspace, run: Execution, attempt_id: str, lease: Lease) -> Execution | None:
    """Lease one claimable execution in the way that its state asks for; None when it ended at its cap."""
    if run.lifecycle_phase is Phase.ACTIVE:
        if at_reclaim_cap(run):
            end_at_cap(space, run)
            return None
        return reclaim(space, run, attempt_id, lease)
    if run.attempt_state is AttemptState.INTERRUPTED:
        return resume_attempt(space, run, lease)
    return new_attempt(space, run, attempt_id, lease)


def new_attempt(space: Workspace, run: Execution, attempt_id: str, lease: Lease) -> Execution:
    """T5: start the first attempt, a retry or a replay."""
    attempt = _attempt(
        space, run, attempt_id, lease, _ATTEMPT_KINDS.get(run.attempt_state, "initial"),
        run.pending_lineage_reason, run.pending_previous_index, run.pending_requested_by,
    )  # fmt: skip
    return begin_attempt(space, run, T5, lease, attempt)


def reclaim(space: Workspace, run: Execution, attempt_id: str, lease: Lease) -> Execution:
    """T11: end the attempt whose lease is gone, and start another."""
    reason = lost_reason(run)
    close_stream(space, run, "reclaimed", override=True)
    old = end_attempt(space, run, Life.RECLAIMED, reason=reason)
    attempt = _attempt(space, run, attempt_id, lease, "reclaim", reason, old.index)
    counted = 0 if run.lease_end == "released" else 1
    return begin_attempt(
        space, run, T11, replace(lease, reason=reason), attempt, ended=old,
        lease_reclaim_count=run.lease_reclaim_count + counted,
    )  # fmt: skip


def _attempt(
    space: Workspace,
    run: Execution,
    attempt_id: str,
    lease: Lease,
    kind: str,
    reason: str,
    previous: int,
    requested_by: str = "",
) -> Attempt:
    return Attempt(
        index=run.total_attempt_count, attempt_id=attempt_id, kind=kind, life=Life.STARTED, started_at=space.now,
        lease_id=lease.lease_id, lease_epoch=run.current_lease_epoch + 1, worker_id=lease.worker_id,
        worker_instance_id=lease.worker_instance_id, lineage_reason=reason, requested_by=requested_by,
        previous_index=previous,
    )  # fmt: skip


def lost_reason(run: Execution) -> str:
    """Say why a lease is gone, for attempts and history."""
    return "worker_dead" if run.lease_end == "worker_dead" else f"lease_{run.lease_end}"


def reclaim_cap(run: Execution, asked: int | None = None) -> int:
    """How often an execution may be reclaimed."""
    if run.policy.max_reclaim_count >= 0:
        return run.policy.max_reclaim_count
    return DEFAULT_MAX_RECLAIMS if asked is None else asked


def at_reclaim_cap(run: Execution, asked: int | None = None) -> bool:
    """Whether the next reclaim would be one too many; a lease that was given back costs nothing."""
    return run.lease_end != "released" and run.lease_reclaim_count >= reclaim_cap(run, asked)


def end_at_cap(space: Workspace, run: Execution) -> Execution:
    """T12: fail an execution that was reclaimed too often."""
    reason = "max_reclaims_exceeded"
    return finish(
        space, run, T12, actor=TIMER, reason=reason, attempt_reason=lost_reason(run), failure_reason=reason
    )


def task_of(space: Workspace, run: Execution) -> Task:
    """Gather all that a worker needs to run what it has claimed."""
    payload: Payload = space.get("payload", run.execution_id)
    return plain_task(run, payload, *resume_of(space, run), _first_steps(space, run))


def plain_task(
    run: Execution,
    payload: Payload,
    resume: Resume | None = None,
    signals: tuple[SignalView, ...] = (),
    steps: tuple[StepView, ...] = (),
) -> Task:
    """Put a task together."""
    assert run.ownership_state is Ownership.LEASED
    return Task(
        run.execution_id, run.execution_kind, run.namespace, run.lane_id, run.flow_id, run.priority,
        run.attempt.index, run.attempt.attempt_id, run.claim_type,
        Fence(run.current_lease_id, run.current_lease_epoch, run.current_attempt_id), run.lease_expires_at,
        payload.input, run.payload_encoding, run.tags, payload.policy_json, run.current_worker_id,
        run.current_worker_instance_id, run.attempt_deadline_at, run.execution_deadline_at, resume, signals,
        steps, run.step_count,
    )  # fmt: skip


def resume_of(space: Workspace, run: Execution) -> tuple[Resume | None, tuple[SignalView, ...]]:
    """Say what resumed the current attempt, and with which signals."""
    if run.claim_type != "resumed" or not run.current_suspension_id:
        return None, ()
    suspension: Suspension = space.get("suspension", run.execution_id)
    reason = RESUME_REASONS.get(suspension.close_reason, "")
    return Resume(suspension.suspension_id, suspension.step_name, reason), satisfying(space, run, suspension)


def satisfying(space: Workspace, run: Execution, suspension: Suspension) -> tuple[SignalView, ...]:
    """Return the signals that satisfied a suspension; those that were trimmed since are left out."""
    keys = [(run.execution_id, ref.waitpoint_id, ref.number) for ref in suspension.satisfiers]
    signals: list[Signal | None] = space.several("signal", keys)
    return tuple(signal_view(signal) for signal in signals if signal is not None)


def signal_view(signal: Signal) -> SignalView:
    """Show a signal to the handler that waited for it."""
    return SignalView(
        signal.signal_id, signal.signal_name, signal.signal_category, signal.source_type, signal.source_identity,
        signal.correlation_id, signal.accepted_at, signal.payload, signal.payload_encoding,
    )  # fmt: skip


def _first_steps(space: Workspace, run: Execution) -> tuple[StepView, ...]:
    if not run.step_count:
        return ()
    fitting = first_that_fit(heads_of(space, run.execution_id), MAX_STEP_BYTES_IN_TASK)
    steps: list[Step] = space.several("step", ((run.execution_id, head.name) for head in fitting))
    return tuple(step_view(each) for each in steps)
