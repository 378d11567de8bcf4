"""Claim the best work of some lanes, and find what could be claimed."""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from flowfabric.model import checks
from flowfabric.model.command import Command, Fence, Question, ReadRequest, check_limit
from flowfabric.model.errors import invalid
from flowfabric.model.ids import ATTEMPT, LEASE, NEXT, check_uuid, mint
from flowfabric.model.lane_order import lane_position
from flowfabric.model.limits import (
    DEFAULT_LEASE_TTL_MS,
    DEFAULT_MAX_RECLAIMS,
    MAX_LANES_PER_CLAIM,
    MAX_LEASE_TTL_MS,
    MAX_NAME_BYTES,
    MAX_STEP_BYTES_IN_TASK,
    MAX_TASKS_PER_CLAIM,
    MIN_LEASE_TTL_MS,
)
from flowfabric.model.machine.admission import admit
from flowfabric.model.machine.attempt import NewLease, begin_attempt, end_attempt, resume_attempt
from flowfabric.model.machine.closing import close_stream
from flowfabric.model.machine.ending import Ending, finish
from flowfabric.model.machine.group import step
from flowfabric.model.machine.holding import TIMER
from flowfabric.model.machine.suspension import RESUME_REASONS, satisfying
from flowfabric.model.machine.workspace import LEASES, QUEUES, Workspace
from flowfabric.model.operations.step import first_that_fit, heads_of
from flowfabric.model.record_kinds import LANE, PAYLOAD, STEP, SUSPENSION
from flowfabric.model.records import Attempt, Execution, Payload
from flowfabric.model.state import AttemptState, Life, Ownership, Phase
from flowfabric.model.transitions import CLAIMED, RECLAIM_CAP_REACHED, RECLAIMED
from flowfabric.model.views import SignalView, StepView, step_view


class Resume(Struct, frozen=True):
    """What ended the suspension that this claim resumes: `signal`, `operator` or `timeout`."""

    suspension_id: str
    step_name: str
    reason: str


class Task(Struct, frozen=True):
    """Claimed work, with all that a worker needs to run it."""

    execution_id: str
    execution_kind: str
    namespace: str
    lane_id: str
    flow_id: str
    priority: int
    attempt_index: int
    attempt_id: str
    attempt_type: str
    fence: Fence
    lease_expires_at: int
    input: bytes
    payload_encoding: str
    tags: tuple[tuple[str, str], ...]
    policy: bytes
    worker_id: str
    worker_instance_id: str
    attempt_deadline_at: int = 0
    execution_deadline_at: int = 0
    resume: Resume | None = None
    resume_signals: tuple[SignalView, ...] = ()
    steps: tuple[StepView, ...] = ()
    step_count: int = 0
    """Stored steps in all; `steps` carries the earliest of them, as far as they fit."""


class Claimed(Struct, frozen=True):
    """What a claim brought; empty when there is nothing to do."""

    tasks: tuple[Task, ...]


def check_worker(worker_id: str, worker_instance_id: str) -> None:
    """Refuse ill-formed names of a worker."""
    checks.worker("worker_id", worker_id)
    checks.worker("worker_instance_id", worker_instance_id)


@lru_cache(maxsize=4096)  # a worker asks again and again with the same words
def _check_claimer(
    worker_id: str,
    worker_instance_id: str,
    lanes: tuple[str, ...],
    kinds: tuple[str, ...] | None,
    namespace: str,
    capabilities: tuple[str, ...],
) -> None:
    check_worker(worker_id, worker_instance_id)
    if not 1 <= len(lanes) <= MAX_LANES_PER_CLAIM:
        raise invalid("lanes", f"name 1 to {MAX_LANES_PER_CLAIM} lanes")
    for lane in lanes:
        checks.lane(lane, "lanes")
    checks.kinds(kinds)
    if namespace:
        checks.name("namespace", namespace)
    checks.worker_capabilities(capabilities)


@lru_cache(maxsize=1024)
def _needs_of_lanes(lanes: tuple[str, ...]) -> tuple[ReadRequest, ...]:
    return (*((LANE, (lane,)) for lane in lanes), *((QUEUES, (lane,)) for lane in lanes))


class Claim(Command[Claimed], frozen=True, kw_only=True):
    """Select, lease and return the best work of some lanes, in one step (T5, T6, T11)."""

    worker_id: str
    worker_instance_id: str
    lanes: tuple[str, ...]
    mint: str
    """A random UUID: the ids of the leases and attempts of this claim are derived from it."""
    kinds: tuple[str, ...] | None = None
    namespace: str = ""
    """Only work of this namespace; empty means of any."""
    capabilities: tuple[str, ...] = ()
    max_tasks: int = 1
    lease_ttl_ms: int = DEFAULT_LEASE_TTL_MS
    claim_id: str = ""
    """A repeat with the same id by the same instance, while those leases live, gets the same tasks."""

    def check(self) -> None:
        """Check every field."""
        super().check()
        _check_claimer(
            self.worker_id, self.worker_instance_id, self.lanes, self.kinds, self.namespace, self.capabilities
        )
        check_uuid("mint", self.mint)
        checks.integer("max_tasks", self.max_tasks, 1, MAX_TASKS_PER_CLAIM)
        checks.integer("lease_ttl_ms", self.lease_ttl_ms, MIN_LEASE_TTL_MS, MAX_LEASE_TTL_MS)
        checks.text("claim_id", self.claim_id, max_bytes=MAX_NAME_BYTES, empty=True)

    def reads(self) -> tuple[ReadRequest, ...]:
        """The lanes and their routes."""
        reads = _needs_of_lanes(self.lanes)
        if not self.claim_id:
            return reads
        return (*reads, (LEASES, (self.worker_instance_id, self.claim_id)))

    def claim_capacity(self) -> tuple[tuple[str, int], ...]:
        """Its lanes; a claim of one namespace looks at queues of its own."""
        return () if self.namespace else tuple((lane, self.max_tasks) for lane in self.lanes)


@step(Claim)
def claim(space: Workspace, command: Claim) -> Claimed:
    """T5, T6, T11: lease the best claimable work that this worker may run."""
    space.emit("seen", command.worker_instance_id, value=command)
    if command.claim_id:
        held = space.leases(command.worker_instance_id, command.claim_id)
        living = [
            run
            for run in held
            if run.lease_expires_at > space.now and command.namespace in {"", run.namespace}
        ]
        if living:
            living.sort(key=lane_position)  # the order of the first answer
            space.several(PAYLOAD, [(run.execution_id,) for run in living])
            return Claimed(tuple(task_of(space, run) for run in living))
    queues = space.queues(command.lanes, command.capabilities, command.kinds)
    tasks: list[Task] = []
    base = command.mint
    while queues and len(tasks) < command.max_tasks:
        # One question for all that is still wanted; executions that end at their cap, or are not admitted, make
        # room for others.
        runs = space.best(queues, command.namespace, command.max_tasks - len(tasks))
        if not runs:
            break
        for run in runs:
            if not admit(space, run):
                continue
            lease = NewLease(
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


class FindClaimable(Question[tuple[str, ...]], frozen=True, kw_only=True):
    """Return the eligible executions of a lane that a worker may run, the best first, without taking them."""

    lane_id: str
    capabilities: tuple[str, ...] = ()
    namespace: str = ""
    """Only work of this namespace; empty means of any."""
    limit: int = 1

    def check(self) -> None:
        """Check every field."""
        super().check()
        checks.lane(self.lane_id)
        checks.worker_capabilities(self.capabilities)
        if self.namespace:
            checks.name("namespace", self.namespace)
        check_limit(self.limit)

    def reads(self) -> tuple[ReadRequest, ...]:
        """The lane and its routes."""
        return ((LANE, (self.lane_id,)), (QUEUES, (self.lane_id,)))


@step(FindClaimable)
def find_claimable(space: Workspace, question: FindClaimable) -> tuple[str, ...]:
    """Return the best eligible work of a lane; active work whose lease is gone is no matter of claim grants."""
    queues = space.queues((question.lane_id,), question.capabilities, None)
    count = question.limit
    while True:
        runs = space.best(queues, question.namespace, count) if queues else []
        eligible = [run.execution_id for run in runs if run.lifecycle_phase is Phase.RUNNABLE]
        if len(eligible) >= question.limit or len(runs) < count:
            return tuple(eligible[: question.limit])
        count *= 2


_ATTEMPT_KINDS = {AttemptState.PENDING_RETRY: "retry", AttemptState.PENDING_REPLAY: "replay"}


def take(space: Workspace, run: Execution, attempt_id: str, lease: NewLease) -> Execution | None:
    """Lease one claimable execution in the way that its state asks for; None when it ended at its cap."""
    if run.lifecycle_phase is Phase.ACTIVE:
        if at_reclaim_cap(run):
            end_at_cap(space, run)
            return None
        return reclaim(space, run, attempt_id, lease)
    if run.attempt_state is AttemptState.INTERRUPTED:
        return resume_attempt(space, run, lease)
    return new_attempt(space, run, attempt_id, lease)


def new_attempt(space: Workspace, run: Execution, attempt_id: str, lease: NewLease) -> Execution:
    """T5: start the first attempt, a retry or a replay."""
    attempt = _attempt(
        space,
        run,
        attempt_id,
        lease,
        _ATTEMPT_KINDS.get(run.attempt_state, "initial"),
        run.pending_lineage_reason,
        run.pending_previous_index,
        run.pending_requested_by,
    )
    return begin_attempt(space, run, CLAIMED, lease, attempt)


def reclaim(space: Workspace, run: Execution, attempt_id: str, lease: NewLease) -> Execution:
    """T11: end the attempt whose lease is gone, and start another."""
    reason = lost_reason(run)
    close_stream(space, run, "reclaimed", override=True)
    old = end_attempt(space, run, Life.RECLAIMED, reason=reason)
    attempt = _attempt(space, run, attempt_id, lease, "reclaim", reason, old.index)
    counted = 0 if run.lease_end == "released" else 1
    return begin_attempt(
        space,
        run,
        RECLAIMED,
        replace(lease, reason=reason),
        attempt,
        ended=old,
        lease_reclaim_count=run.lease_reclaim_count + counted,
    )


def _attempt(
    space: Workspace,
    run: Execution,
    attempt_id: str,
    lease: NewLease,
    kind: str,
    reason: str,
    previous: int,
    requested_by: str = "",
) -> Attempt:
    return Attempt(
        index=run.total_attempt_count,
        attempt_id=attempt_id,
        kind=kind,
        life=Life.STARTED,
        started_at=space.now,
        lease_id=lease.lease_id,
        lease_epoch=run.current_lease_epoch + 1,
        worker_id=lease.worker_id,
        worker_instance_id=lease.worker_instance_id,
        lineage_reason=reason,
        requested_by=requested_by,
        previous_index=previous,
    )


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
        space,
        run,
        RECLAIM_CAP_REACHED,
        Ending(
            actor=TIMER, reason=reason, attempt_reason=lost_reason(run), changes={"failure_reason": reason}
        ),
    )


def task_of(space: Workspace, run: Execution) -> Task:
    """Gather all that a worker needs to run what it has claimed."""
    payload = space.require(PAYLOAD, run.execution_id)
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
        run.execution_id,
        run.execution_kind,
        run.namespace,
        run.lane_id,
        run.flow_id,
        run.priority,
        run.attempt.index,
        run.attempt.attempt_id,
        run.claim_type,
        Fence(run.current_lease_id, run.current_lease_epoch, run.current_attempt_id),
        run.lease_expires_at,
        payload.input,
        run.payload_encoding,
        run.tags,
        payload.policy_json,
        run.current_worker_id,
        run.current_worker_instance_id,
        run.attempt_deadline_at,
        run.execution_deadline_at,
        resume,
        signals,
        steps,
        run.step_count,
    )


def resume_of(space: Workspace, run: Execution) -> tuple[Resume | None, tuple[SignalView, ...]]:
    """Say what resumed the current attempt, and with which signals."""
    if run.claim_type != "resumed" or not run.current_suspension_id:
        return None, ()
    suspension = space.require(SUSPENSION, run.execution_id)
    reason = RESUME_REASONS.get(suspension.close_reason, "")
    return Resume(suspension.suspension_id, suspension.step_name, reason), satisfying(space, run, suspension)


def _first_steps(space: Workspace, run: Execution) -> tuple[StepView, ...]:
    if not run.step_count:
        return ()
    fitting = first_that_fit(heads_of(space, run.execution_id), MAX_STEP_BYTES_IN_TASK)
    steps = space.several(STEP, ((run.execution_id, head.name) for head in fitting))
    return tuple(step_view(each) for each in steps if each is not None)
