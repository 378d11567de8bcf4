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

    number: str
    operation: str
    before: tuple[Phase, ...]
    """Phases it may start from; empty for creation."""
    to: Target
    event: str
    owners: tuple[Ownership, ...] = ANY_OWNER
    eligible: tuple[Eligibility, ...] = ANY_ELIGIBILITY
    attempt_life: Life | None = None
    """What becomes of the current attempt's record."""
    closes_stream: str = ""


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


T1: Final = Transition("T1", "create", (), _ready(_A.PENDING_FIRST), "created")
T2: Final = Transition("T2", "create delayed", (), _later(_B.DELAY, _A.PENDING_FIRST), "created")
T3: Final = Transition("T3", "promote", _RUNNABLE, _ready(), "promoted", eligible=(_E.UNTIL_TIME,))
T5: Final = Transition(
    "T5", "claim", _RUNNABLE, _RUNNING, "claimed", eligible=(_E.NOW,), attempt_life=Life.STARTED
)
T6: Final = Transition("T6", "claim resumed", _RUNNABLE, _RUNNING, "resumed_claim", attempt_life=Life.STARTED)
T8: Final = Transition(
    "T8",
    "lease expires",
    *_HELD[:1],
    _lease_gone(_O.EXPIRED),
    "lease_expired",
    _HELD[1],
    closes_stream="lease_expired",
)
T8_RELEASE: Final = T8._replace(number="T8r", operation="release", event="released")
T8_DEAD: Final = T8._replace(number="T8d", operation="worker dead", event="worker_dead")
T9: Final = Transition("T9", "revoke", *_HELD[:1], _lease_gone(_O.REVOKED), "lease_revoked", _HELD[1])
T11: Final = Transition(
    "T11", "reclaim", *_LOST[:1], _RUNNING, "reclaimed", _LOST[1], attempt_life=Life.STARTED
)
T12: Final = Transition(
    "T12",
    "reclaim at cap",
    *_LOST[:1],
    _ended(Outcome.FAILED),
    "failed",
    _LOST[1],
    attempt_life=Life.RECLAIMED,
    closes_stream="reclaimed",
)
T13: Final = Transition(
    "T13",
    "complete",
    *_HELD[:1],
    _ended(Outcome.SUCCESS),
    "completed",
    _HELD[1],
    attempt_life=Life.SUCCESS,
    closes_stream="attempt_success",
)
T14: Final = Transition(
    "T14",
    "fail, retry left",
    *_HELD[:1],
    _later(_B.RETRY_BACKOFF, _A.PENDING_RETRY),
    "retry_scheduled",
    attempt_life=Life.FAILURE,
    closes_stream="attempt_failure",
)
T15: Final = Transition(
    "T15",
    "fail, no retry left",
    *_HELD[:1],
    _ended(Outcome.FAILED),
    "failed",
    _HELD[1],
    attempt_life=Life.FAILURE,
    closes_stream="attempt_failure",
)
T16: Final = Transition(
    "T16",
    "delay",
    *_HELD[:1],
    _later(_B.DELAY, _A.INTERRUPTED),
    "delayed",
    _HELD[1],
    attempt_life=Life.SUSPENDED,
)
T17: Final = Transition(
    "T17",
    "wait for children",
    *_HELD[:1],
    Target(Phase.RUNNABLE, _O.UNOWNED, _E.DEPENDENCIES, _B.CHILDREN, Outcome.NONE, _A.INTERRUPTED),
    "waiting_children",
    _HELD[1],
    attempt_life=Life.SUSPENDED,
)
T18: Final = Transition(
    "T18",
    "suspend",
    *_HELD[:1],
    Target(Phase.SUSPENDED, _O.UNOWNED, _E.NONE, KEEP, Outcome.NONE, _A.INTERRUPTED),
    "suspended",
    _HELD[1],
    attempt_life=Life.SUSPENDED,
)
T19: Final = Transition(
    "T19", "suspend, already satisfied", *_HELD[:1], Target(), "already_satisfied", _HELD[1]
)
T20: Final = Transition("T20", "resume", _SUSPENDED, _ready(_A.INTERRUPTED), "resumed")
T21: Final = Transition("T21", "resume later", _SUSPENDED, _later(_B.RESUME_DELAY, _A.INTERRUPTED), "resumed")
T22_FAIL: Final = Transition(
    "T22f",
    "suspension timeout: fail",
    _SUSPENDED,
    _ended(Outcome.FAILED),
    "failed",
    attempt_life=Life.FAILURE,
    closes_stream="suspension_timeout",
)
T22_CANCEL: Final = Transition(
    "T22c",
    "suspension timeout: cancel",
    _SUSPENDED,
    _ended(Outcome.CANCELLED),
    "cancelled",
    attempt_life=Life.CANCELLED,
    closes_stream="suspension_timeout",
)
T22_EXPIRE: Final = Transition(
    "T22e",
    "suspension timeout: expire",
    _SUSPENDED,
    _ended(Outcome.EXPIRED),
    "expired",
    attempt_life=Life.FAILURE,
    closes_stream="suspension_timeout",
)
T23: Final = Transition(
    "T23", "suspension timeout: escalate", _SUSPENDED, Target(blocking=_B.OPERATOR), "escalated"
)
T24: Final = Transition(
    "T24",
    "cancel",
    _LIVE,
    _ended(Outcome.CANCELLED, KEEP),
    "cancelled",
    attempt_life=Life.CANCELLED,
    closes_stream="attempt_cancelled",
)
T25: Final = Transition(
    "T25",
    "expire",
    _LIVE,
    _ended(Outcome.EXPIRED, KEEP),
    "expired",
    attempt_life=Life.FAILURE,
    closes_stream="expired",
)
T26: Final = Transition("T26", "replay", (Phase.TERMINAL,), _ready(_A.PENDING_REPLAY), "replayed")
T27: Final = Transition(
    "T27",
    "replay of a skipped flow member",
    (Phase.TERMINAL,),
    Target(Phase.RUNNABLE, _O.UNOWNED, _E.DEPENDENCIES, _B.CHILDREN, Outcome.NONE, _A.PENDING_REPLAY),
    "replayed",
)
T28: Final = Transition(
    "T28", "block", _RUNNABLE, Target(outcome=Outcome.NONE), "blocked", eligible=(_E.NOW,)
)
T28_PAUSE: Final = Transition(
    "T28p", "pause", _RUNNABLE, Target(eligibility=_E.OPERATOR, blocking=_B.OPERATOR), "paused"
)
T29: Final = Transition("T29", "unblock", _RUNNABLE, _ready(), "unblocked", eligible=_BLOCKED)
T29_UNPAUSE: Final = Transition(
    "T29u", "unpause", _RUNNABLE, Target(Phase.RUNNABLE, _O.UNOWNED), "unpaused", eligible=(_E.OPERATOR,)
)
T30: Final = Transition(
    "T30", "dependencies satisfied", _RUNNABLE, _ready(), "promoted", eligible=(_E.DEPENDENCIES,)
)

TRANSITIONS: Final[tuple[Transition, ...]] = (
    T1, T2, T3, T5, T6, T8, T8_RELEASE, T8_DEAD, T9, T11, T12, T13, T14, T15, T16, T17, T18, T19, T20, T21,
    T22_FAIL, T22_CANCEL, T22_EXPIRE, T23, T24, T25, T26, T27, T28, T28_PAUSE, T29, T29_UNPAUSE, T30,
)  # fmt: skip


_FIELDS: Final = (
    "lifecycle_phase", "ownership_state", "eligibility_state", "blocking_reason", "terminal_outcome", "attempt_state",
)  # fmt: skip


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
        run.lifecycle_phase, run.ownership_state, run.eligibility_state, run.blocking_reason, run.terminal_outcome,
        run.attempt_state,
    )  # fmt: skip


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
            moved.lifecycle_phase, moved.ownership_state, moved.eligibility_state, moved.blocking_reason,
            moved.terminal_outcome, moved.attempt_state, moved.public_state,
        ) = whole  # fmt: skip
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
