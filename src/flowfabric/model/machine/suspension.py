"""Offer signals to a suspension, and end it: shared by signals, operators and timers."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from flowfabric.model.conditions import Condition
from flowfabric.model.evaluation import APPENDED, DUPLICATE, SATISFIED, Offer, offer, satisfiers
from flowfabric.model.limits import MAX_INT
from flowfabric.model.machine.closing import close_suspension
from flowfabric.model.machine.workspace import Cause, Workspace
from flowfabric.model.record_kinds import SIGNAL, STEP, SUSPENSION
from flowfabric.model.records import Execution, Signal, SignalRef, Step, Suspension, Waitpoint
from flowfabric.model.transitions import RESUMED, RESUMED_LATER, move
from flowfabric.model.views import SignalView, signal_view
from flowfabric.model.wait_result import pack_wait

RESUME_REASONS = {"resumed": "signal", "resumed_by_operator": "operator", "timed_out_auto_resume": "timeout"}
MATCHED: Final = frozenset({SATISFIED, APPENDED, DUPLICATE})
"""The effects of signals that the condition listens to by waitpoint and name."""


def offer_signal(condition: Condition, waitpoint: Waitpoint, signal: Signal) -> tuple[Condition, str]:
    """Let a signal of a waitpoint count; gives the new condition and the effect."""
    return offer(
        condition,
        Offer(
            f"{signal.waitpoint_id}:{signal.number}",
            waitpoint.waitpoint_key,
            waitpoint.waitpoint_id,
            signal.signal_name,
            signal.source_type,
            signal.source_identity,
        ),
    )


def satisfied_by(space: Workspace, condition: Condition, closer: Signal) -> dict[str, Any]:
    """Say what a suspension keeps about the signals that satisfied it."""
    parts = (ref.rpartition(":") for ref in satisfiers(condition))
    return {
        "satisfied_at": space.now,
        "closer_signal_id": closer.signal_id,
        "satisfiers": tuple(SignalRef(waitpoint_id, int(number)) for waitpoint_id, _, number in parts),
    }


def satisfying(space: Workspace, run: Execution, suspension: Suspension) -> tuple[SignalView, ...]:
    """Return the signals that satisfied a suspension; those that were trimmed since are left out."""
    keys = [(run.execution_id, ref.waitpoint_id, ref.number) for ref in suspension.satisfiers]
    signals = space.several(SIGNAL, keys)
    return tuple(signal_view(signal) for signal in signals if signal is not None)


def open_suspension(space: Workspace, run: Execution) -> Suspension | None:
    """Return the suspension that has not ended, if there is one."""
    suspension = space.get(SUSPENSION, run.execution_id)
    return None if suspension is None or suspension.closed_at else suspension


def end_suspension(
    space: Workspace, run: Execution, close_reason: str, *, actor: str, delay_ms: int = 0, **changes: Any
) -> Execution:
    """T20, T21: close the suspension and its waitpoints; the work can go on at once, or after a delay."""
    closed = close_suspension(space, run, close_reason, **changes)
    before = run.public_state
    run = keep_wait(space, run, closed)
    row, until = (RESUMED_LATER, min(space.now + delay_ms, MAX_INT)) if delay_ms else (RESUMED, 0)
    resumed = move(run, row, space.now, suspension_timeout_at=0, delay_until=until)
    return space.put_execution(
        resumed, row.event, Cause(actor, RESUME_REASONS[close_reason], wait_details(closed)), before=before
    )


def wait_details(suspension: Suspension) -> tuple[tuple[str, str], ...]:
    """Name a suspension that has ended in the history, without what the signals said."""
    details = [("suspension_id", suspension.suspension_id), ("waitpoint_id", suspension.waitpoint_id)]
    if suspension.closer_signal_id:
        details.append(("signal_id", suspension.closer_signal_id))
    if suspension.step_name:
        details.append(("step_name", suspension.step_name))
    return tuple(details)


def keep_wait(space: Workspace, run: Execution, suspension: Suspension) -> Execution:
    """Store what ended a suspension as the result of its step, so that no later crash loses it."""
    name = suspension.step_name
    if not name or space.get(STEP, run.execution_id, name) is not None:
        return run
    reason = RESUME_REASONS[suspension.close_reason]
    document = pack_wait(reason, satisfying(space, run, suspension))
    result = Step(name, run.next_step_index, run.attempt.index, space.now, "json", document)
    space.put(STEP, run.execution_id, name, value=result)
    return replace(run, step_count=run.step_count + 1, next_step_index=run.next_step_index + 1)
