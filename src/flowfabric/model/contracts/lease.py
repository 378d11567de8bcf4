"""Taking work, holding it and ending it."""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

from flowfabric.model import checks
from flowfabric.model.contracts.base import Command, ExecutionCommand, Fence, HolderCommand, Need
from flowfabric.model.contracts.create import Cancelled
from flowfabric.model.errors import invalid
from flowfabric.model.ids import check_uuid
from flowfabric.model.limits import (
    DEFAULT_LEASE_TTL_MS,
    MAX_DETAIL_BYTES,
    MAX_GRANT_TTL_MS,
    MAX_INT,
    MAX_LANES_PER_CLAIM,
    MAX_LEASE_TTL_MS,
    MAX_NAME_BYTES,
    MAX_RESULT_BYTES,
    MAX_TASKS_PER_CLAIM,
    MAX_TEXT_BYTES,
    MIN_LEASE_TTL_MS,
)
from flowfabric.model.state import Public


class SignalView(Struct, frozen=True):
    """A signal as the resumed handler sees it."""

    signal_id: str
    signal_name: str
    signal_category: str
    source_type: str
    source_identity: str
    correlation_id: str
    accepted_at: int
    payload: bytes
    payload_encoding: str


class Resume(Struct, frozen=True):
    """What ended the suspension that this claim resumes: `signal`, `operator` or `timeout`."""

    suspension_id: str
    step_name: str
    reason: str


class StepView(Struct, frozen=True):
    """A stored step result."""

    name: str
    call_index: int
    at: int
    encoding: str
    result: bytes


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


def _check_worker(worker_id: str, worker_instance_id: str) -> None:
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
    _check_worker(worker_id, worker_instance_id)
    if not 1 <= len(lanes) <= MAX_LANES_PER_CLAIM:
        raise invalid("lanes", f"name 1 to {MAX_LANES_PER_CLAIM} lanes")
    for lane in lanes:
        checks.lane(lane, "lanes")
    checks.kinds(kinds)
    if namespace:
        checks.name("namespace", namespace)
    checks.worker_capabilities(capabilities)


@lru_cache(maxsize=1024)
def _needs_of_lanes(lanes: tuple[str, ...]) -> tuple[Need, ...]:
    return (*(("lane", (lane,)) for lane in lanes), *(("routes", (lane,)) for lane in lanes))


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

    def needs(self) -> tuple[Need, ...]:
        """The lanes and their routes."""
        needs = _needs_of_lanes(self.lanes)
        if not self.claim_id:
            return needs
        return (*needs, ("leases", (self.worker_instance_id, self.claim_id)))

    def appetite(self) -> tuple[tuple[str, int], ...]:
        """Its lanes; a claim of one namespace looks at queues of its own."""
        return () if self.namespace else tuple((lane, self.max_tasks) for lane in self.lanes)


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
        _check_worker(self.worker_id, self.worker_instance_id)
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


class IssueReclaimGrant(_GrantCommand, frozen=True, kw_only=True):
    """Promise work whose lease is gone to one worker (T10)."""


class _ClaimOne(ExecutionCommand["ClaimedOne"], frozen=True, kw_only=True):
    worker_id: str
    worker_instance_id: str
    lease_id: str
    lease_ttl_ms: int = DEFAULT_LEASE_TTL_MS

    def check(self) -> None:
        """Check worker, lease and time."""
        super().check()
        _check_worker(self.worker_id, self.worker_instance_id)
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
        fence.lease_id, fence.lease_epoch, task.lease_expires_at, task.attempt_id, task.attempt_index,
        task.attempt_type, task,
    )  # fmt: skip


class ClaimGranted(_ClaimOne, frozen=True, kw_only=True):
    """Claim by grant: a new attempt (T5)."""

    attempt_id: str

    def check(self) -> None:
        """Check the attempt's id too."""
        super().check()
        check_uuid("attempt_id", self.attempt_id)


class ClaimResumed(_ClaimOne, frozen=True, kw_only=True):
    """Claim by grant: go on with an interrupted attempt (T6)."""


class GrantAndClaim(ClaimGranted, frozen=True, kw_only=True):
    """Take one execution by name, without matching capabilities: the operator's way (T5, T6)."""


class Reclaim(ClaimGranted, frozen=True, kw_only=True):
    """Claim by reclaim grant work whose lease is gone (T11), or end it at its cap (T12)."""

    max_reclaim_count: int | None = None

    def check(self) -> None:
        """Check the cap too."""
        super().check()
        if self.max_reclaim_count is not None:
            checks.integer("max_reclaim_count", self.max_reclaim_count, 0, MAX_INT)


class Renewed(Struct, frozen=True):
    """Until when the lease holds now."""

    expires_at: int


class Renew(HolderCommand[Renewed], frozen=True, kw_only=True):
    """Hold the lease longer (T7)."""

    lease_ttl_ms: int = DEFAULT_LEASE_TTL_MS
    attempt_index: int | None = None
    """When given, it must be the current one."""

    def check(self) -> None:
        """Check the time and the attempt."""
        super().check()
        checks.integer("lease_ttl_ms", self.lease_ttl_ms, MIN_LEASE_TTL_MS, MAX_LEASE_TTL_MS)
        if self.attempt_index is not None:
            checks.integer("attempt_index", self.attempt_index)


class Released(Struct, frozen=True):
    """The lease was given back."""


class Release(HolderCommand[Released], frozen=True, kw_only=True):
    """Give the lease back unfinished; others may claim it at once."""

    reason: str = ""


class Completed(Struct, frozen=True):
    """The execution ended well."""

    execution_id: str
    public_state: Public


class Complete(HolderCommand[Completed], frozen=True, kw_only=True):
    """End the attempt, and the execution, with a result (T13)."""

    result: bytes | None = None
    result_encoding: str = ""

    def check(self) -> None:
        """Check the result's size."""
        super().check()
        if self.result is not None:
            checks.payload("result", self.result, MAX_RESULT_BYTES)
        checks.text("result_encoding", self.result_encoding, max_bytes=MAX_NAME_BYTES, empty=True)


class RetryScheduled(Struct, frozen=True):
    """It will be tried again."""

    delay_until: int
    next_attempt_index: int


class TerminalFailed(Struct, frozen=True):
    """It has failed for good."""


class Fail(HolderCommand[RetryScheduled | TerminalFailed], frozen=True, kw_only=True):
    """End the attempt with a failure; the policy decides whether there is another (T14, T15)."""

    reason: str
    category: str = "error"
    detail: str = ""
    retry_after_ms: int | None = None
    """Overrides the backoff of this retry; it does not add one."""

    def check(self) -> None:
        """Check the texts and the delay."""
        super().check()
        checks.text("reason", self.reason, max_bytes=MAX_TEXT_BYTES, empty=True)
        checks.name("category", self.category)
        checks.text("detail", self.detail, max_bytes=MAX_DETAIL_BYTES, empty=True)
        if self.retry_after_ms is not None:
            checks.integer("retry_after_ms", self.retry_after_ms, 0, MAX_INT)


class Cancel(HolderCommand[Cancelled], frozen=True, kw_only=True):
    """Cancel whatever has not ended (T24). Sources `lease_holder` and `worker` need the fence on active work."""

    reason: str = ""

    def check(self) -> None:
        """Check the reason."""
        super().check()
        checks.text("reason", self.reason, max_bytes=MAX_TEXT_BYTES, empty=True)


class Delayed(Struct, frozen=True):
    """The lease was given back until a time."""

    execution_id: str
    public_state: Public


class Delay(HolderCommand[Delayed], frozen=True, kw_only=True):
    """Go on later with the same attempt (T16)."""

    delay_until: int

    def check(self) -> None:
        """Check the time."""
        super().check()
        checks.integer("delay_until", self.delay_until, 0, MAX_INT)


class Moved(Struct, frozen=True):
    """The lease was given back until children end."""

    execution_id: str
    public_state: Public


class WaitChildren(HolderCommand[Moved], frozen=True, kw_only=True):
    """Go on with the same attempt when the children have ended (T17)."""


class Updated(Struct, frozen=True):
    """The progress is stored."""


class UpdateProgress(HolderCommand[Updated], frozen=True, kw_only=True):
    """Say how far the work is; what is not given stays."""

    pct: int | None = None
    message: str | None = None

    def check(self) -> None:
        """Check percentage and message."""
        super().check()
        if self.pct is not None:
            checks.integer("pct", self.pct, 0, 100)
        if self.message is not None:
            checks.text("message", self.message, max_bytes=MAX_TEXT_BYTES, empty=True)
