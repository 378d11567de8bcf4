"""The state of an execution: six dimensions that are stored, and the public state that follows from them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Phase(StrEnum):
    """Where an execution is in its life."""

    RUNNABLE = "runnable"
    ACTIVE = "active"
    SUSPENDED = "suspended"
    TERMINAL = "terminal"


class Ownership(StrEnum):
    """Who holds it."""

    UNOWNED = "unowned"
    LEASED = "leased"
    EXPIRED = "lease_expired_reclaimable"
    REVOKED = "lease_revoked"


class Eligibility(StrEnum):
    """Whether a worker may take it."""

    NOW = "eligible_now"
    UNTIL_TIME = "not_eligible_until_time"
    DEPENDENCIES = "blocked_by_dependencies"
    BUDGET = "blocked_by_budget"
    QUOTA = "blocked_by_quota"
    ROUTE = "blocked_by_route"
    LANE = "blocked_by_lane_state"
    OPERATOR = "blocked_by_operator"
    NONE = "not_applicable"


class Blocking(StrEnum):
    """What it waits for."""

    NONE = "none"
    WORKER = "waiting_for_worker"
    RETRY_BACKOFF = "waiting_for_retry_backoff"
    RESUME_DELAY = "waiting_for_resume_delay"
    DELAY = "waiting_for_delay"
    SIGNAL = "waiting_for_signal"
    APPROVAL = "waiting_for_approval"
    CALLBACK = "waiting_for_callback"
    TOOL_RESULT = "waiting_for_tool_result"
    CHILDREN = "waiting_for_children"
    BUDGET = "waiting_for_budget"
    QUOTA = "waiting_for_quota"
    CAPABLE_WORKER = "waiting_for_capable_worker"
    OPERATOR = "paused_by_operator"
    POLICY = "paused_by_policy"


class Outcome(StrEnum):
    """How it ended."""

    NONE = "none"
    SUCCESS = "success"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    SKIPPED = "skipped"


class AttemptState(StrEnum):
    """What its current attempt is doing, or which kind of claim comes next."""

    NONE = "none"
    PENDING_FIRST = "pending_first_attempt"
    RUNNING = "running_attempt"
    INTERRUPTED = "attempt_interrupted"
    PENDING_RETRY = "pending_retry_attempt"
    PENDING_REPLAY = "pending_replay_attempt"
    TERMINAL = "attempt_terminal"


class Public(StrEnum):
    """The one word that users see."""

    WAITING = "waiting"
    DELAYED = "delayed"
    RATE_LIMITED = "rate_limited"
    WAITING_CHILDREN = "waiting_children"
    ACTIVE = "active"
    SUSPENDED = "suspended"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    SKIPPED = "skipped"


class Life(StrEnum):
    """The life of one attempt record."""

    NONE = ""
    STARTED = "started"
    SUSPENDED = "suspended"
    SUCCESS = "ended_success"
    FAILURE = "ended_failure"
    CANCELLED = "ended_cancelled"
    RECLAIMED = "interrupted_reclaimed"


FINAL_LIVES: Final = frozenset({Life.SUCCESS, Life.FAILURE, Life.CANCELLED, Life.RECLAIMED})
TERMINAL_STATES: Final = frozenset(
    {Public.COMPLETED, Public.FAILED, Public.CANCELLED, Public.EXPIRED, Public.SKIPPED}
)


class Vector(NamedTuple):
    """The six stored dimensions together."""

    phase: Phase
    ownership: Ownership
    eligibility: Eligibility
    blocking: Blocking
    outcome: Outcome
    attempt: AttemptState


_ENDS: Final = {
    Outcome.SUCCESS: Public.COMPLETED,
    Outcome.FAILED: Public.FAILED,
    Outcome.CANCELLED: Public.CANCELLED,
    Outcome.EXPIRED: Public.EXPIRED,
    Outcome.SKIPPED: Public.SKIPPED,
    Outcome.NONE: Public.FAILED,
}
_RUNNABLE: Final = {
    Eligibility.NOW: Public.WAITING,
    Eligibility.UNTIL_TIME: Public.DELAYED,
    Eligibility.DEPENDENCIES: Public.WAITING_CHILDREN,
    Eligibility.BUDGET: Public.RATE_LIMITED,
    Eligibility.QUOTA: Public.RATE_LIMITED,
    Eligibility.ROUTE: Public.WAITING,
    Eligibility.LANE: Public.WAITING,
    Eligibility.OPERATOR: Public.WAITING,
    Eligibility.NONE: Public.WAITING,
}


def public_state(phase: Phase, eligibility: Eligibility, outcome: Outcome) -> Public:
    """Derive the public state; total, also on combinations that never arise."""
    if phase is Phase.TERMINAL:
        return _ENDS[outcome]
    if phase is Phase.SUSPENDED:
        return Public.SUSPENDED
    if phase is Phase.ACTIVE:
        return Public.ACTIVE
    return _RUNNABLE[eligibility]


_PENDING: Final = (AttemptState.PENDING_FIRST, AttemptState.PENDING_RETRY, AttemptState.PENDING_REPLAY)
_OPEN: Final = (*_PENDING, AttemptState.INTERRUPTED)
_ANY_ATTEMPT: Final = tuple(AttemptState)
_SUSPENDED_FOR: Final = (
    Blocking.SIGNAL,
    Blocking.APPROVAL,
    Blocking.CALLBACK,
    Blocking.TOOL_RESULT,
    Blocking.OPERATOR,
    Blocking.POLICY,
    Blocking.BUDGET,
)


class LegalRow(NamedTuple):
    """One line of the table of legal vectors; every combination of its alternatives is legal."""

    phase: Phase
    ownership: tuple[Ownership, ...]
    eligibility: Eligibility
    blocking: tuple[Blocking, ...]
    outcome: tuple[Outcome, ...]
    attempt: tuple[AttemptState, ...]


_U: Final = (Ownership.UNOWNED,)
_N: Final = (Outcome.NONE,)


def _waiting(eligibility: Eligibility, blocking: Blocking, attempts: tuple[AttemptState, ...]) -> LegalRow:
    return LegalRow(Phase.RUNNABLE, _U, eligibility, (blocking,), _N, attempts)


LEGAL: Final[tuple[LegalRow, ...]] = (
    _waiting(Eligibility.NOW, Blocking.WORKER, _OPEN),
    _waiting(Eligibility.UNTIL_TIME, Blocking.DELAY, (AttemptState.PENDING_FIRST, AttemptState.INTERRUPTED)),
    _waiting(Eligibility.UNTIL_TIME, Blocking.RETRY_BACKOFF, (AttemptState.PENDING_RETRY,)),
    _waiting(Eligibility.UNTIL_TIME, Blocking.RESUME_DELAY, (AttemptState.INTERRUPTED,)),
    _waiting(
        Eligibility.DEPENDENCIES,
        Blocking.CHILDREN,
        (AttemptState.PENDING_FIRST, AttemptState.PENDING_REPLAY, AttemptState.INTERRUPTED),
    ),
    _waiting(Eligibility.BUDGET, Blocking.BUDGET, _OPEN),
    _waiting(Eligibility.QUOTA, Blocking.QUOTA, _OPEN),
    _waiting(Eligibility.ROUTE, Blocking.CAPABLE_WORKER, _OPEN),
    _waiting(Eligibility.OPERATOR, Blocking.OPERATOR, _OPEN),
    _waiting(Eligibility.LANE, Blocking.POLICY, _OPEN),
    LegalRow(
        Phase.ACTIVE, (Ownership.LEASED,), Eligibility.NONE, (Blocking.NONE,), _N, (AttemptState.RUNNING,)
    ),
    LegalRow(
        Phase.ACTIVE,
        (Ownership.EXPIRED, Ownership.REVOKED),
        Eligibility.NONE,
        (Blocking.WORKER,),
        _N,
        (AttemptState.INTERRUPTED,),
    ),
    LegalRow(Phase.SUSPENDED, _U, Eligibility.NONE, _SUSPENDED_FOR, _N, (AttemptState.INTERRUPTED,)),
    LegalRow(
        Phase.TERMINAL,
        _U,
        Eligibility.NONE,
        (Blocking.NONE,),
        (Outcome.SUCCESS, Outcome.FAILED),
        (AttemptState.TERMINAL,),
    ),
    LegalRow(
        Phase.TERMINAL,
        _U,
        Eligibility.NONE,
        (Blocking.NONE,),
        (Outcome.CANCELLED, Outcome.EXPIRED),
        (AttemptState.TERMINAL, *_PENDING),
    ),
    LegalRow(
        Phase.TERMINAL,
        _U,
        Eligibility.NONE,
        (Blocking.NONE,),
        (Outcome.SKIPPED,),
        (AttemptState.TERMINAL, AttemptState.NONE),
    ),
)


def is_legal(vector: Vector) -> bool:
    """Whether the table allows this combination."""
    return any(
        vector.phase is row.phase
        and vector.ownership in row.ownership
        and vector.eligibility is row.eligibility
        and vector.blocking in row.blocking
        and vector.outcome in row.outcome
        and vector.attempt in row.attempt
        for row in LEGAL
    )
