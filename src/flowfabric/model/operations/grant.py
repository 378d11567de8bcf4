"""Promise one execution to one worker, and claim by that promise."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from flowfabric.model import checks
from flowfabric.model.checks import missing_capabilities, worker_capabilities
from flowfabric.model.command import ExecutionCommand
from flowfabric.model.errors import invalid, refuse
from flowfabric.model.ids import check_uuid
from flowfabric.model.limits import (
    DEFAULT_LEASE_TTL_MS,
    MAX_GRANT_TTL_MS,
    MAX_INT,
    MAX_LEASE_TTL_MS,
    MAX_TEXT_BYTES,
    MIN_LEASE_TTL_MS,
)
from flowfabric.model.machine.attempt import NewLease, resume_attempt
from flowfabric.model.machine.group import step
from flowfabric.model.machine.workspace import KeptRefusal, Workspace, granted
from flowfabric.model.operations.claim import (
    Task,
    at_reclaim_cap,
    check_worker,
    end_at_cap,
    new_attempt,
    reclaim,
    reclaim_cap,
    task_of,
)
from flowfabric.model.record_kinds import LANE
from flowfabric.model.records import Execution, Grant
from flowfabric.model.state import AttemptState, Eligibility, Ownership, Phase


class _GrantCommand(ExecutionCommand["Granted"], frozen=True, kw_only=True):
    worker_id: str
    worker_instance_id: str
    lane_id: str = ""
    """When given, it must be the execution's lane."""
    capability_hash: str = ""
    grant_ttl_ms: int
    route_snapshot_json: str = ""
    admission_summary: str = ""
    worker_capabilities: tuple[str, ...] = ()

    def check(self) -> None:
        """Check every field; the size of the capability list is judged with the record."""
        super().check()
        check_worker(self.worker_id, self.worker_instance_id)
        if self.lane_id:
            checks.lane(self.lane_id)
        checks.integer("grant_ttl_ms", self.grant_ttl_ms, 1, MAX_GRANT_TTL_MS)
        for field in ("capability_hash", "route_snapshot_json", "admission_summary"):
            checks.text(field, getattr(self, field), max_bytes=MAX_TEXT_BYTES, empty=True)


class Granted(Struct, frozen=True):
    """A worker may now claim it by grant."""

    execution_id: str
    lane_id: str
    expires_at: int


class IssueClaimGrant(_GrantCommand, frozen=True, kw_only=True):
    """Promise eligible work to one worker (T4)."""


@step(IssueClaimGrant)
def issue_claim_grant(space: Workspace, command: IssueClaimGrant) -> Granted:
    """T4: promise eligible work to one worker; unused, the promise leaves nothing to repair."""
    run = space.execution(command.execution_id)
    if run.lifecycle_phase is not Phase.RUNNABLE or run.eligibility_state is not Eligibility.NOW:
        raise refuse("execution_not_eligible")
    lane = space.get(LANE, run.lane_id)
    if lane is not None and lane.paused_at:
        raise refuse("execution_not_eligible", text=f"lane {run.lane_id} is paused")
    kind = "resume" if run.attempt_state is AttemptState.INTERRUPTED else "claim"
    return _grant(space, run, command, kind)


class IssueReclaimGrant(_GrantCommand, frozen=True, kw_only=True):
    """Promise work whose lease is gone to one worker (T10)."""


_LOST = (Ownership.EXPIRED, Ownership.REVOKED)


@step(IssueReclaimGrant)
def issue_reclaim_grant(space: Workspace, command: IssueReclaimGrant) -> Granted:
    """T10: promise work whose lease is gone to one worker."""
    run = space.execution(command.execution_id)
    if run.lifecycle_phase is not Phase.ACTIVE or run.ownership_state not in _LOST:
        raise refuse("execution_not_reclaimable")
    return _grant(space, run, command, "reclaim")


def _grant(
    space: Workspace, run: Execution, command: IssueClaimGrant | IssueReclaimGrant, kind: str
) -> Granted:
    if command.lane_id and command.lane_id != run.lane_id:
        raise invalid("lane_id", f"the execution is in lane {run.lane_id}")
    if granted(run, space.now):
        raise refuse("grant_already_exists")
    offered = worker_capabilities(command.worker_capabilities)
    missing = missing_capabilities(run.required_capabilities, offered)
    if missing:
        raise refuse("capability_mismatch", ",".join(missing))
    grant = Grant(
        kind,
        command.worker_id,
        command.worker_instance_id,
        space.now,
        space.now + command.grant_ttl_ms,
        command.capability_hash,
        command.route_snapshot_json,
        command.admission_summary,
    )
    space.touch(replace(run, grant=(grant,)))
    return Granted(run.execution_id, run.lane_id, grant.expires_at)


class _ClaimOne(ExecutionCommand["ClaimedOne"], frozen=True, kw_only=True):
    worker_id: str
    worker_instance_id: str
    lease_id: str
    lease_ttl_ms: int = DEFAULT_LEASE_TTL_MS

    def check(self) -> None:
        """Check worker, lease and time."""
        super().check()
        check_worker(self.worker_id, self.worker_instance_id)
        check_uuid("lease_id", self.lease_id)
        checks.integer("lease_ttl_ms", self.lease_ttl_ms, MIN_LEASE_TTL_MS, MAX_LEASE_TTL_MS)


class ClaimedOne(Struct, frozen=True):
    """One execution, claimed by name."""

    lease_id: str
    lease_epoch: int
    lease_expires_at: int
    attempt_id: str
    attempt_index: int
    attempt_type: str
    task: Task


def claimed_one(task: Task) -> ClaimedOne:
    """Answer a claim by name with what it brought."""
    fence = task.fence
    return ClaimedOne(
        fence.lease_id,
        fence.lease_epoch,
        task.lease_expires_at,
        task.attempt_id,
        task.attempt_index,
        task.attempt_type,
        task,
    )


class ClaimGranted(_ClaimOne, frozen=True, kw_only=True):
    """Claim by grant: a new attempt (T5)."""

    attempt_id: str

    def check(self) -> None:
        """Check the attempt's id too."""
        super().check()
        check_uuid("attempt_id", self.attempt_id)


@step(ClaimGranted)
def claim_granted(space: Workspace, command: ClaimGranted) -> ClaimedOne:
    """T5: a new attempt, by grant."""
    run = space.execution(command.execution_id)
    if run.eligibility_state is not Eligibility.NOW:
        raise refuse("execution_not_leaseable")
    if run.attempt_state is AttemptState.INTERRUPTED:
        raise refuse("use_claim_resumed_execution")
    _use_grant(space, run, command.worker_id, ("claim",))
    return _claimed(space, new_attempt(space, run, command.attempt_id, _lease(command)))


class ClaimResumed(_ClaimOne, frozen=True, kw_only=True):
    """Claim by grant: go on with an interrupted attempt (T6)."""


@step(ClaimResumed)
def claim_resumed(space: Workspace, command: ClaimResumed) -> ClaimedOne:
    """T6: an interrupted attempt goes on, by grant."""
    run = space.execution(command.execution_id)
    if run.lifecycle_phase is not Phase.RUNNABLE:
        raise refuse("execution_not_leaseable")
    if run.attempt_state is not AttemptState.INTERRUPTED:
        raise refuse("not_a_resumed_execution")
    if run.eligibility_state is not Eligibility.NOW:
        raise refuse("execution_not_leaseable")
    _use_grant(space, run, command.worker_id, ("resume",))
    return _claimed(space, resume_attempt(space, run, _lease(command)))


class GrantAndClaim(ClaimGranted, frozen=True, kw_only=True):
    """Take one execution by name, without matching capabilities: the operator's way (T5, T6)."""


@step(GrantAndClaim)
def grant_and_claim(space: Workspace, command: GrantAndClaim) -> ClaimedOne:
    """T5, T6: an operator takes one execution by name."""
    run = space.execution(command.execution_id)
    if run.lifecycle_phase is not Phase.RUNNABLE:
        raise refuse("execution_not_eligible")
    if granted(run, space.now):
        raise refuse("grant_already_exists")
    if run.attempt_state is AttemptState.INTERRUPTED:
        return _claimed(space, resume_attempt(space, run, _lease(command, "issue_grant_and_claim_resumed")))
    if run.eligibility_state is not Eligibility.NOW:
        raise refuse("execution_not_in_eligible_set")
    lease = _lease(command, "issue_grant_and_claim")
    return _claimed(space, new_attempt(space, run, command.attempt_id, lease))


class Reclaim(ClaimGranted, frozen=True, kw_only=True):
    """Claim by reclaim grant work whose lease is gone (T11), or end it at its cap (T12)."""

    max_reclaim_count: int | None = None

    def check(self) -> None:
        """Check the cap too."""
        super().check()
        if self.max_reclaim_count is not None:
            checks.integer("max_reclaim_count", self.max_reclaim_count, 0, MAX_INT)


@step(Reclaim)
def reclaim_granted(space: Workspace, command: Reclaim) -> ClaimedOne:
    """T11, T12: by reclaim grant, a new attempt for work whose lease is gone; at its cap it fails instead."""
    run = space.execution(command.execution_id)
    if run.lifecycle_phase is not Phase.ACTIVE or run.ownership_state not in _LOST:
        raise refuse("execution_not_reclaimable")
    if at_reclaim_cap(run, command.max_reclaim_count):
        cap = reclaim_cap(run, command.max_reclaim_count)
        end_at_cap(space, run)
        raise KeptRefusal(refuse("max_retries_exhausted", str(cap)))
    _use_grant(space, run, command.worker_id, ("reclaim",))
    return _claimed(space, reclaim(space, run, command.attempt_id, _lease(command)))


def _use_grant(space: Workspace, run: Execution, worker_id: str, kinds: tuple[str, ...]) -> None:
    """Let the worker pass that was promised this; a promise that is too old is removed."""
    if not run.grant or run.grant[0].worker_id != worker_id or run.grant[0].kind not in kinds:
        raise refuse("invalid_claim_grant")
    if run.grant[0].expires_at < space.now:
        space.touch(replace(run, grant=()))
        raise KeptRefusal(refuse("claim_grant_expired"))


def _lease(command: ClaimGranted | ClaimResumed, reason: str = "") -> NewLease:
    return NewLease(
        command.worker_id, command.worker_instance_id, command.lease_id, command.lease_ttl_ms, reason=reason
    )


def _claimed(space: Workspace, run: Execution) -> ClaimedOne:
    return claimed_one(task_of(space, run))
