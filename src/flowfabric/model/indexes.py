"""Which indexes hold an execution: one pure function of its record.

Four indexes are kept, and no more: claimable work by route, lists by lane and state (for all namespaces, and for each),
what is due next, and the leases of a worker. Everything else that a reader may ask for is computed from records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from flowfabric.model.lane_order import score
from flowfabric.model.limits import MAX_INT
from flowfabric.model.record_kinds import EXECUTION, Key, RecordKind
from flowfabric.model.records import Execution, Queue, Waitpoint
from flowfabric.model.state import Eligibility, Ownership, Phase, Public


class Placement(Struct, frozen=True, gc=False):
    """Where the indexes hold one execution."""

    claimable: bool
    score: int
    lane_id: str
    state: Public
    due_at: int
    """0: nothing is due, ever."""
    lease_of: str
    """The worker instance that holds it, or empty."""
    claim_id: str


# Members of enumerations, by short names: looking one up in its class costs more than comparing it.
_RUNNABLE: Final = Phase.RUNNABLE
_ACTIVE: Final = Phase.ACTIVE
_TERMINAL: Final = Phase.TERMINAL
_NOW: Final = Eligibility.NOW
_LEASED: Final = Ownership.LEASED


def claimable(run: Execution) -> bool:
    """Whether a claim may take it: eligible work, and active work whose lease is gone."""
    phase = run.lifecycle_phase
    if phase is _RUNNABLE:
        return run.eligibility_state is _NOW
    return phase is _ACTIVE and run.ownership_state is not _LEASED


def opens(old: Waitpoint | None, new: Waitpoint) -> bool:
    """Whether a waitpoint comes into the inbox: it is new, or opened again."""
    return old is None or (old.state == "closed" and new.state != "closed")


def deadlines(run: Execution) -> list[tuple[int, str]]:
    """All times at which something happens to it by itself, with the name of what happens."""
    if run.lifecycle_phase is Phase.TERMINAL:
        return [(min(run.completed_at + run.retention_ms, MAX_INT), "retention")]
    times = []
    if run.ownership_state is Ownership.LEASED:
        times.append((run.lease_expires_at, "lease"))
    if run.eligibility_state is Eligibility.UNTIL_TIME:
        times.append((run.delay_until, "delay"))
    if run.attempt_deadline_at:
        times.append((run.attempt_deadline_at, "attempt"))
    if run.execution_deadline_at:
        times.append((run.execution_deadline_at, "deadline"))
    if run.suspension_timeout_at:
        times.append((run.suspension_timeout_at, "suspension"))
    times.extend((expires_at, "waitpoint") for _, expires_at in run.pending_waitpoints)
    return times


def due_at(run: Execution) -> int:
    """Return the earliest of its deadlines; 0 when there is none."""
    if run.lifecycle_phase is _TERMINAL:
        return min(run.completed_at + run.retention_ms, MAX_INT)
    if run.ownership_state is _LEASED and not (
        run.attempt_deadline_at or run.execution_deadline_at or run.pending_waitpoints
    ):
        return run.lease_expires_at  # by far the most usual case
    times = deadlines(run)
    return min(times)[0] if times else 0


DUE_AT: Final[dict[RecordKind[Any], Callable[[Any], int]]] = {EXECUTION: due_at}
"""The kinds of records that the index of what is due holds, and when each record is due (0: never)."""


class DueEntry(Struct, frozen=True, gc=False):
    """One entry of the index of what is due next: a record, and when something is due for it."""

    kind: RecordKind[Any]
    key: Key
    at: int
    record: Any
    """As it was when the index was read; a step reads it again."""


def due_entry(run: Execution) -> DueEntry:
    """Return the entry of an execution for which something is due."""
    return DueEntry(EXECUTION, (run.execution_id,), due_at(run), run)


def placement(run: Execution) -> Placement:
    """Derive every index entry of an execution."""
    leased = run.ownership_state is _LEASED
    return Placement(
        not leased and claimable(run),
        score(run),
        run.lane_id,
        run.public_state,
        due_at(run),
        run.current_worker_instance_id if leased else "",
        run.claim_id if leased else "",
    )


def queue_of(run: Execution) -> Queue:
    """Name the queue inside its lane that it waits in."""
    return Queue(run.lane_id, run.execution_kind, run.required_capabilities)


_BLOCKED = {
    Eligibility.NOW: "eligible",
    Eligibility.UNTIL_TIME: "delayed",
    Eligibility.DEPENDENCIES: "blocked:dependencies",
    Eligibility.BUDGET: "blocked:budget",
    Eligibility.QUOTA: "blocked:quota",
    Eligibility.ROUTE: "blocked:route",
    Eligibility.OPERATOR: "blocked:operator",
    Eligibility.LANE: "blocked:lane",
}


def scheduling_set(run: Execution) -> str:
    """Name the one scheduling set that its vector implies, as operators speak of it."""
    if run.lifecycle_phase is not Phase.RUNNABLE:
        return str(run.lifecycle_phase)
    return _BLOCKED[run.eligibility_state]
