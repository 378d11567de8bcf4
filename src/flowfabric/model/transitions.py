"""The transition table: from where, to where, and what it leaves behind. Steps, tests and docs all read these rows."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from flowfabric.model.errors import InternalError
from flowfabric.model.records import Execution, copy
from flowfabric.model.state import (
    AttemptState,
    Blocking,
    Eligibility,
    Life,
    Outcome,
    Ownership,
    Phase,
    Vector,
    public_state,
)

KEEP: Final = None
"""In a target: leave the dimension as it is, or let the operation say."""


class Target(NamedTuple):
    """The dimensions that a transition writes."""

    phase: Phase | None = KEEP
    ownership: Ownership | None = KEEP
    eligibility: Eligibility | None = KEEP
    blocking: Blocking | None = KEEP
    outcome: Outcome | None = KEEP
    attempt: AttemptState | None = KEEP


ANY_OWNER: Final = tuple(Ownership)
ANY_ELIGIBILITY: Final = tuple(Eligibility)


class Transition(NamedTuple):
    """One row of the table."""

    operation: str
    """What is done, in words."""
    before: tuple[Phase, ...]
    """Phases it may start from; empty for creation."""
    to: Target
    event: str
    owners: tuple[Ownership, ...] = ANY_OWNER
    eligible: tuple[Eligibility, ...] = ANY_ELIGIBILITY
    attempt_life: Life | None = None
    """What becomes of the current attempt's record."""
    closes_stream: str = ""
    number: str = ""
    """How the history of the design, tests and docs refer to it."""


_A, _E, _O, _B = AttemptState, Eligibility, Ownership, Blocking
_LIVE: Final = (Phase.RUNNABLE, Phase.ACTIVE, Phase.SUSPENDED)
_HELD: Final = ((Phase.ACTIVE,), (_O.LEASED,))
_LOST: Final = ((Phase.ACTIVE,), (_O.EXPIRED, _O.REVOKED))


def _ready(attempt: AttemptState | None = KEEP) -> Target:
    return Target(Phase.RUNNABLE, _O.UNOWNED, _E.NOW, _B.WORKER, Outcome.NONE, attempt)


def _later(why: Blocking, attempt: AttemptState) -> Target:
    return Target(Phase.RUNNABLE, _O.UNOWNED, _E.UNTIL_TIME, why, Outcome.NONE, attempt)


def _ended(outcome: Outcome | None, attempt: AttemptState | None = _A.TERMINAL) -> Target:
    return Target(Phase.TERMINAL, _O.UNOWNED, _E.NONE, _B.NONE, outcome, attempt)


_RUNNING: Final = Target(Phase.ACTIVE, _O.LEASED, _E.NONE, _B.NONE, Outcome.NONE, _A.RUNNING)
_SUSPENDED: Final = (Phase.SUSPENDED,)
_RUNNABLE: Final = (Phase.RUNNABLE,)
_BLOCKED: Final = (_E.BUDGET, _E.QUOTA, _E.ROUTE, _E.OPERATOR, _E.LANE)


def _lease_gone(owner: Ownership) -> Target:
    return Target(Phase.ACTIVE, owner, _E.NONE, _B.WORKER, Outcome.NONE, _A.INTERRUPTED)


CREATED: Final = Transition("create", (), _ready(_A.PENDING_FIRST), "created", number="T1")
CREATED_DELAYED: Final = Transition(
    "create delayed", (), _later(_B.DELAY, _A.PENDING_FIRST), "created", number="T2"
)
PROMOTED: Final = Transition(
    "promote", _RUNNABLE, _ready(), "promoted", eligible=(_E.UNTIL_TIME,), number="T3"
)
CLAIMED: Final = Transition(
    "claim", _RUNNABLE, _RUNNING, "claimed", eligible=(_E.NOW,), attempt_life=Life.STARTED, number="T5"
)
CLAIMED_RESUMED: Final = Transition(
    "claim resumed", _RUNNABLE, _RUNNING, "resumed_claim", attempt_life=Life.STARTED, number="T6"
)
LEASE_EXPIRED: Final = Transition(
    "lease expires",
    *_HELD[:1],
    _lease_gone(_O.EXPIRED),
    "lease_expired",
    _HELD[1],
    closes_stream="lease_expired",
    number="T8",
)
LEASE_RELEASED: Final = LEASE_EXPIRED._replace(number="T8r", operation="release", event="released")
WORKER_DIED: Final = LEASE_EXPIRED._replace(number="T8d", operation="worker dead", event="worker_dead")
LEASE_REVOKED: Final = Transition(
    "revoke", *_HELD[:1], _lease_gone(_O.REVOKED), "lease_revoked", _HELD[1], number="T9"
)
RECLAIMED: Final = Transition(
    "reclaim", *_LOST[:1], _RUNNING, "reclaimed", _LOST[1], attempt_life=Life.STARTED, number="T11"
)
RECLAIM_CAP_REACHED: Final = Transition(
    "reclaim at cap",
    *_LOST[:1],
    _ended(Outcome.FAILED),
    "failed",
    _LOST[1],
    attempt_life=Life.RECLAIMED,
    closes_stream="reclaimed",
    number="T12",
)
COMPLETED: Final = Transition(
    "complete",
    *_HELD[:1],
    _ended(Outcome.SUCCESS),
    "completed",
    _HELD[1],
    attempt_life=Life.SUCCESS,
    closes_stream="attempt_success",
    number="T13",
)
RETRY_SCHEDULED: Final = Transition(
    "fail, retry left",
    *_HELD[:1],
    _later(_B.RETRY_BACKOFF, _A.PENDING_RETRY),
    "retry_scheduled",
    attempt_life=Life.FAILURE,
    closes_stream="attempt_failure",
    number="T14",
)
FAILED: Final = Transition(
    "fail, no retry left",
    *_HELD[:1],
    _ended(Outcome.FAILED),
    "failed",
    _HELD[1],
    attempt_life=Life.FAILURE,
    closes_stream="attempt_failure",
    number="T15",
)
DELAYED: Final = Transition(
    "delay",
    *_HELD[:1],
    _later(_B.DELAY, _A.INTERRUPTED),
    "delayed",
    _HELD[1],
    attempt_life=Life.SUSPENDED,
    number="T16",
)
WAITING_FOR_CHILDREN: Final = Transition(
    "wait for children",
    *_HELD[:1],
    Target(Phase.RUNNABLE, _O.UNOWNED, _E.DEPENDENCIES, _B.CHILDREN, Outcome.NONE, _A.INTERRUPTED),
    "waiting_children",
    _HELD[1],
    attempt_life=Life.SUSPENDED,
    number="T17",
)
SUSPENDED: Final = Transition(
    "suspend",
    *_HELD[:1],
    Target(Phase.SUSPENDED, _O.UNOWNED, _E.NONE, KEEP, Outcome.NONE, _A.INTERRUPTED),
    "suspended",
    _HELD[1],
    attempt_life=Life.SUSPENDED,
    number="T18",
)
ALREADY_SATISFIED: Final = Transition(
    "suspend, already satisfied", *_HELD[:1], Target(), "already_satisfied", _HELD[1], number="T19"
)
RESUMED: Final = Transition("resume", _SUSPENDED, _ready(_A.INTERRUPTED), "resumed", number="T20")
RESUMED_LATER: Final = Transition(
    "resume later", _SUSPENDED, _later(_B.RESUME_DELAY, _A.INTERRUPTED), "resumed", number="T21"
)
SUSPENSION_FAILED: Final = Transition(
    "suspension timeout: fail",
    _SUSPENDED,
    _ended(Outcome.FAILED),
    "failed",
    attempt_life=Life.FAILURE,
    closes_stream="suspension_timeout",
    number="T22f",
)
SUSPENSION_CANCELLED: Final = Transition(
    "suspension timeout: cancel",
    _SUSPENDED,
    _ended(Outcome.CANCELLED),
    "cancelled",
    attempt_life=Life.CANCELLED,
    closes_stream="suspension_timeout",
    number="T22c",
)
SUSPENSION_EXPIRED: Final = Transition(
    "suspension timeout: expire",
    _SUSPENDED,
    _ended(Outcome.EXPIRED),
    "expired",
    attempt_life=Life.FAILURE,
    closes_stream="suspension_timeout",
    number="T22e",
)
ESCALATED: Final = Transition(
    "suspension timeout: escalate", _SUSPENDED, Target(blocking=_B.OPERATOR), "escalated", number="T23"
)
CANCELLED: Final = Transition(
    "cancel",
    _LIVE,
    _ended(Outcome.CANCELLED, KEEP),
    "cancelled",
    attempt_life=Life.CANCELLED,
    closes_stream="attempt_cancelled",
    number="T24",
)
EXPIRED: Final = Transition(
    "expire",
    _LIVE,
    _ended(Outcome.EXPIRED, KEEP),
    "expired",
    attempt_life=Life.FAILURE,
    closes_stream="expired",
    number="T25",
)
REPLAYED: Final = Transition("replay", (Phase.TERMINAL,), _ready(_A.PENDING_REPLAY), "replayed", number="T26")
REPLAYED_SKIPPED: Final = Transition(
    "replay of a skipped flow member",
    (Phase.TERMINAL,),
    Target(Phase.RUNNABLE, _O.UNOWNED, _E.DEPENDENCIES, _B.CHILDREN, Outcome.NONE, _A.PENDING_REPLAY),
    "replayed",
    number="T27",
)
BLOCKED: Final = Transition(
    "block", _RUNNABLE, Target(outcome=Outcome.NONE), "blocked", eligible=(_E.NOW,), number="T28"
)
PAUSED: Final = Transition(
    "pause", _RUNNABLE, Target(eligibility=_E.OPERATOR, blocking=_B.OPERATOR), "paused", number="T28p"
)
UNBLOCKED: Final = Transition("unblock", _RUNNABLE, _ready(), "unblocked", eligible=_BLOCKED, number="T29")
UNPAUSED: Final = Transition(
    "unpause",
    _RUNNABLE,
    Target(Phase.RUNNABLE, _O.UNOWNED),
    "unpaused",
    eligible=(_E.OPERATOR,),
    number="T29u",
)
DEPENDENCIES_SATISFIED: Final = Transition(
    "dependencies satisfied", _RUNNABLE, _ready(), "promoted", eligible=(_E.DEPENDENCIES,), number="T30"
)

NAMED: Final = {name: value for name, value in list(globals().items()) if isinstance(value, Transition)}
"""Every row by its name, in the order above."""
TRANSITIONS: Final[tuple[Transition, ...]] = tuple(NAMED.values())


UNCHANGING: Final = (
    "execution_id",
    "namespace",
    "lane_id",
    "execution_kind",
    "partition",
    "creator_identity",
    "created_at",
    "flow_id",
    "required_capabilities",
    "fairness_key",
    "budget_ids",
    "quota_ids",
    "payload_encoding",
    "policy",
    "retention_ms",
)
"""The fields of an execution that no transition changes."""

_FIELDS: Final = (
    "lifecycle_phase",
    "ownership_state",
    "eligibility_state",
    "blocking_reason",
    "terminal_outcome",
    "attempt_state",
)


def _written(to: Target) -> tuple[tuple[str, Any], ...]:
    """Return what a target writes, with the public state where it alone decides that."""
    written: list[tuple[str, Any]] = [
        (field, value) for field, value in zip(_FIELDS, to, strict=True) if value is not KEEP
    ]
    if to.phase is not KEEP and to.eligibility is not KEEP and to.outcome is not KEEP:
        written.append(("public_state", public_state(to.phase, to.eligibility, to.outcome)))
    return tuple(written)


_WRITTEN: Final = {row.number: _written(row.to) for row in TRANSITIONS}
_WHOLE: Final = {
    number: tuple(value for _, value in written)
    for number, written in _WRITTEN.items()
    if len(written) == len(_FIELDS) + 1
}
"""Rows that leave nothing open: all six dimensions and the public state."""


def vector_of(run: Execution) -> Vector:
    """Read the six stored dimensions of an execution."""
    return Vector(
        run.lifecycle_phase,
        run.ownership_state,
        run.eligibility_state,
        run.blocking_reason,
        run.terminal_outcome,
        run.attempt_state,
    )


def move(run: Execution, row: Transition, now: int, **changes: Any) -> Execution:
    """Apply a row to a copy, which the calling step may change further until it puts it.

    `changes` may name the dimensions that the row leaves open; the public state follows from all of them. A start that
    the row does not allow is a defect of the calling step, which must have refused it with a code before.
    """
    if (
        run.lifecycle_phase not in row.before
        or (row.owners is not ANY_OWNER and run.ownership_state not in row.owners)
        or (row.eligible is not ANY_ELIGIBILITY and run.eligibility_state not in row.eligible)
    ):
        raise InternalError(f"{row.number} cannot start from {vector_of(run)}")
    moved = copy(run)
    moved.last_transition_at = moved.last_mutation_at = now
    whole = _WHOLE.get(row.number)
    if whole is not None:
        (
            moved.lifecycle_phase,
            moved.ownership_state,
            moved.eligibility_state,
            moved.blocking_reason,
            moved.terminal_outcome,
            moved.attempt_state,
            moved.public_state,
        ) = whole
    else:
        for name, value in _WRITTEN[row.number]:
            setattr(moved, name, value)
    for name, value in changes.items():
        setattr(moved, name, value)
    if whole is None:
        moved.public_state = public_state(
            moved.lifecycle_phase, moved.eligibility_state, moved.terminal_outcome
        )
    return moved
