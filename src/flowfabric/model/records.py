"""What is stored. Every record is frozen, packs into one array, and begins with its version.

Unset is `""`, `0` or an empty tuple, never null: the same arrays are read and written by stores whose
languages cannot keep a null inside a list. Fields are only ever appended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from flowfabric.model.conditions import Condition
from flowfabric.model.policy import NO_POLICY, Policy
from flowfabric.model.redaction import hide, redact, shown, shown_text
from flowfabric.model.state import (
    AttemptState,
    Blocking,
    Eligibility,
    Life,
    Outcome,
    Ownership,
    Phase,
    Public,
)

VERSION: Final = 1
UNSET: Final = -1
"""Marks an index or a percentage that has no value yet, where 0 would be one."""


class Record(Struct, frozen=True, array_like=True, gc=False):
    """Base of everything that is stored, but the execution, which alone is not frozen."""


class Attempt(Record, frozen=True, array_like=True, gc=False):
    """One run of the handler. The last one lives inside its execution; when another follows, it gets its own row."""

    version: int = VERSION
    index: int = UNSET
    attempt_id: str = ""
    kind: str = ""
    life: Life = Life.NONE
    started_at: int = 0
    resumed_at: int = 0
    suspended_at: int = 0
    suspension_id: str = ""
    ended_at: int = 0
    lease_id: str = ""
    lease_epoch: int = 0
    worker_id: str = ""
    worker_instance_id: str = ""
    lineage_reason: str = ""
    """Why there is an attempt after the first: the retry, replay or reclaim reason."""
    requested_by: str = ""
    previous_index: int = UNSET
    failure_reason: str = ""
    failure_category: str = ""
    failure_detail: str = ""
    ended_by: str = ""
    """Which call of the holder ended it: `complete`, `fail` or `cancel`. Repeated, it is answered alike."""
    delay_until: int = 0
    next_index: int = UNSET
    """With `ended_by` = `fail`: the retry that was promised, or unset when the failure was final."""


class Grant(Record, frozen=True, array_like=True, gc=False):
    """A short promise that one worker may claim one execution."""

    kind: str
    worker_id: str
    worker_instance_id: str
    created_at: int
    expires_at: int
    capability_hash: str = ""
    route_snapshot_json: str = ""
    admission_summary: str = ""


class Execution(Struct, array_like=True, gc=False):
    """One unit of durable work, with all that decides what may happen to it.

    A step changes a copy that it has made itself (`transitions.move`) and hands it over once (`put_execution`); after
    that nobody changes it any more. It is not frozen, because building a copy from fifty names costs ten times as much
    as setting the few that differ.

    The fields that `transitions.UNCHANGING` names are the same from creation to purge. Indexes, queues, feeds and what
    stores remember between groups rely on it: an execution never moves from one queue to another.
    """

    version: int
    execution_id: str
    namespace: str
    """Never changes."""
    lane_id: str
    """Never changes."""
    execution_kind: str
    """Never changes."""
    partition: int
    priority: int
    creator_identity: str
    created_at: int
    last_transition_at: int
    last_mutation_at: int
    flow_id: str = ""
    required_capabilities: tuple[str, ...] = ()
    """Never changes."""
    fairness_key: str = ""
    budget_ids: tuple[str, ...] = ()
    quota_ids: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()
    payload_encoding: str = ""
    result_encoding: str = ""
    policy: Policy = NO_POLICY
    retention_ms: int = 0

    lifecycle_phase: Phase = Phase.RUNNABLE
    ownership_state: Ownership = Ownership.UNOWNED
    eligibility_state: Eligibility = Eligibility.NOW
    blocking_reason: Blocking = Blocking.WORKER
    terminal_outcome: Outcome = Outcome.NONE
    attempt_state: AttemptState = AttemptState.PENDING_FIRST
    public_state: Public = Public.WAITING
    blocking_detail: str = ""

    total_attempt_count: int = 0
    retry_count: int = 0
    replay_count: int = 0
    lease_reclaim_count: int = 0
    signal_count: int = 0
    step_count: int = 0
    event_count: int = 0

    attempt: Attempt = Attempt()
    current_attempt_id: str = ""
    claim_type: str = ""
    """How the current lease was taken: the attempt's kind, or `resumed`."""
    claim_id: str = ""
    has_stream: bool = False

    current_lease_id: str = ""
    current_lease_epoch: int = 0
    current_worker_id: str = ""
    current_worker_instance_id: str = ""
    lease_acquired_at: int = 0
    lease_expires_at: int = 0
    lease_last_renewed_at: int = 0
    lease_renewal_deadline: int = 0
    lease_expired_at: int = 0
    lease_revoked_at: int = 0
    lease_revoke_reason: str = ""
    lease_end: str = ""
    grant: tuple[Grant, ...] = ()

    started_at: int = 0
    completed_at: int = 0
    delay_until: int = 0
    execution_deadline_at: int = 0
    attempt_deadline_at: int = 0
    attempt_timeout_remaining_ms: int = 0
    blocked_at: int = 0
    paused_at: int = 0

    current_suspension_id: str = ""
    current_waitpoint_id: str = ""
    suspension_timeout_at: int = 0
    pending_waitpoints: tuple[tuple[str, int], ...] = ()
    """Pending waitpoints and when each expires, so that one due time follows from this record alone."""

    pending_lineage_reason: str = ""
    pending_requested_by: str = ""
    pending_previous_index: int = UNSET

    progress_pct: int = UNSET
    progress_message: str = ""
    progress_updated_at: int = 0

    failure_reason: str = ""
    failure_category: str = ""
    cancellation_reason: str = ""
    cancelled_by: str = ""
    next_step_index: int = 0
    """Where a step goes that does not say its place: after all that are stored."""


copy: Final[Callable[[Execution], Execution]] = Execution.__copy__  # type: ignore[attr-defined]
"""Copies an execution; `copy.copy` would take twice as long to find this."""


class Payload(Record, frozen=True, array_like=True, gc=False):
    """What the caller sent; written once."""

    input: bytes
    policy_json: bytes


class Result(Record, frozen=True, array_like=True, gc=False):
    """What an attempt returned."""

    data: bytes
    encoding: str


class Event(Record, frozen=True, array_like=True, gc=False):
    """One line of an execution's history."""

    seq: int
    at: int
    event: str
    attempt_index: int
    lease_epoch: int
    actor: str
    reason: str
    from_state: str
    to_state: str
    details: tuple[tuple[str, str], ...] = ()


class SignalRef(Record, frozen=True, array_like=True, gc=False):
    """Where a signal is kept: its waitpoint and its number there."""

    waitpoint_id: str
    number: int


class Suspension(Record, frozen=True, array_like=True, gc=False):
    """The current or last suspension of an execution."""

    version: int
    suspension_id: str
    attempt_index: int
    waitpoint_id: str
    waitpoint_key: str
    additional: tuple[tuple[str, str], ...]
    """Further waitpoints: (id, key)."""
    reason_code: str
    requested_by: str
    created_at: int
    timeout_at: int
    timeout_behavior: str
    condition: Condition
    resume_delay_ms: int = 0
    step_name: str = ""
    continuation_metadata_pointer: str = ""
    last_signal_at: int = 0
    satisfied_at: int = 0
    closed_at: int = 0
    close_reason: str = ""
    closer_signal_id: str = ""
    satisfiers: tuple[SignalRef, ...] = ()
    resume_policy_json: str = ""


class Waitpoint(Record, frozen=True, array_like=True, gc=False):
    """A place where signals arrive. Its token is a secret: `repr` hides it."""

    version: int
    waitpoint_id: str
    attempt_index: int
    waitpoint_key: str
    token: str
    state: str
    created_at: int
    suspension_id: str = ""
    activated_at: int = 0
    expires_at: int = 0
    satisfied_at: int = 0
    closed_at: int = 0
    close_reason: str = ""
    signal_count: int = 0
    matched_signal_count: int = 0
    last_signal_at: int = 0
    first_signal: int = 1
    """Number of the oldest signal that is kept; those before were trimmed."""
    message: str = ""
    """What the handler asks of whoever is to answer."""
    details: str = ""
    """More about it: a JSON object as text, or empty."""

    def __repr__(self) -> str:
        return shown_text(self, token=redact)

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:  # type: ignore[override]
        return shown(self, token=redact)


class Signal(Record, frozen=True, array_like=True, gc=False):
    """One signal as it was accepted."""

    version: int
    signal_id: str
    waitpoint_id: str
    number: int
    signal_name: str
    signal_category: str
    source_type: str
    source_identity: str
    payload: bytes
    payload_encoding: str
    correlation_id: str
    idempotency_key: str
    target_scope: str
    created_at: int
    accepted_at: int
    observed_effect: str


LeaseStart = tuple[int, int, int]
"""A lease epoch, and the id (ms, seq) of the first frame that was appended under it."""


class Stream(Record, frozen=True, array_like=True, gc=False):
    """The stream of one attempt. Kept frames are those numbered `first` to `frame_count`."""

    version: int
    attempt_id: str
    created_at: int
    first: int = 1
    frame_count: int = 0
    last_ms: int = 0
    last_seq: int = 0
    total_bytes: int = 0
    last_frame_at: int = 0
    closed_at: int = 0
    closed_reason: str = ""
    has_durable_frame: bool = False
    rate_hz: float = 0.0
    last_best_effort_at: int = 0
    maxlen_applied_last: int = 0
    expires_at: int = 0
    """Only while nothing durable was ever appended: when its frames are forgotten."""
    leases: tuple[LeaseStart, ...] = ()
    """Which leases appended frames, oldest first. The oldest ones are merged when there are too many."""


class Frame(Record, frozen=True, array_like=True, gc=False):
    """One entry of a stream."""

    number: int
    ms: int
    seq: int
    frame_type: str
    ts: int
    payload: bytes
    encoding: str
    source: str
    mode: str
    correlation_id: str = ""
    summary_version: int = 0
    ttl_ms: int = 0
    metadata_json: str = ""
    lease_epoch: int = 0
    """The lease under which it was appended; 0 in records that are older than this field."""
    step: str = ""
    """The durable step in which it was emitted; empty: outside of any."""


class Summary(Record, frozen=True, array_like=True, gc=False):
    """The summary document of one attempt's stream."""

    document: bytes
    doc_version: int
    patch_kind: str
    last_updated_ms: int
    first_applied_ms: int


class Step(Record, frozen=True, array_like=True, gc=False):
    """The stored result of one durable step."""

    name: str
    call_index: int
    attempt_index: int
    at: int
    encoding: str
    result: bytes


class Memo(Record, frozen=True, array_like=True, gc=False):
    """The remembered answer of a call with an idempotency key. It may hold tokens: `repr` hides it."""

    value: bytes
    expires_at: int

    def __repr__(self) -> str:
        return shown_text(self, value=hide)

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:  # type: ignore[override]
        return shown(self, value=hide)


class Lane(Record, frozen=True, array_like=True, gc=False):
    """A lane that an operator has touched."""

    version: int
    lane_id: str
    paused_at: int = 0
    pause_reason: str = ""


class AccessToken(Record, frozen=True, array_like=True, gc=False):
    """A token that opens a server, as its digest. `repr` hides even that."""

    version: int
    token_id: str
    name: str
    role: str
    digest: str
    """SHA-256 of the token, in hex."""
    namespace: str = ""
    expires_at: int = 0
    created_at: int = 0
    created_by: str = ""

    def __repr__(self) -> str:
        return shown_text(self, digest=hide)

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:  # type: ignore[override]
        return shown(self, digest=hide)


class Kind(Record, frozen=True, array_like=True, gc=False):
    """What the code of a task says about it: defaults of its submissions, and its description."""

    version: int
    kind: str
    namespace: str
    """Empty: for every namespace that has none of its own."""
    lane: str
    """Empty: not said."""
    priority: int | None
    tags: tuple[tuple[str, str], ...]
    required_capabilities: tuple[str, ...]
    fairness_key: str
    fairness_weight: int | None
    policy: str
    """JSON text of the policy object; empty: none."""
    input_schema: str
    """JSON Schema of the arguments, as JSON text; empty: it could not be told."""
    description: str
    published_at: int
    published_by: str
    digest: str
    """SHA-256 of everything above `published_at`."""


class KindName(Record, frozen=True, array_like=True, gc=False):
    """The name of a kind, and the size of its record in bytes."""

    name: str
    size: int


class KindNames(Record, frozen=True, array_like=True, gc=False):
    """The kinds of one namespace, sorted by name."""

    version: int
    names: tuple[KindName, ...]


class KindNamespaces(Record, frozen=True, array_like=True, gc=False):
    """The namespaces that have kinds, sorted."""

    version: int
    namespaces: tuple[str, ...]


class Worker(Record, frozen=True, array_like=True, gc=False):
    """A worker process that has registered, or has asked for work lately."""

    version: int
    worker_id: str
    worker_instance_id: str
    namespace: str
    lanes: tuple[str, ...]
    capabilities: tuple[str, ...]
    last_heartbeat_at: int
    liveness_ttl_ms: int
    registered_at: int
    """0 for a worker that only claimed."""
    kinds: tuple[str, ...] = ()
    """What it takes, by its last claim or registration; empty: of any kind."""


class Queue(Record, frozen=True, array_like=True, gc=False):
    """Work that the same workers can take: one queue inside a lane."""

    lane_id: str
    execution_kind: str
    capabilities: tuple[str, ...]
