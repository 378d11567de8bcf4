"""Places where signals arrive: opened with a suspension or ahead of it, closed when nobody will use them."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from flowfabric.model.conditions import referenced_keys
from flowfabric.model.contracts.waiting import (
    Binding,
    CloseWaitpoint,
    CreateWaitpoint,
    OpenWaitpoint,
    Suspend,
    WaitpointClosed,
    WaitpointCreated,
)
from flowfabric.model.errors import invalid, refuse
from flowfabric.model.limits import MAX_INT, MAX_PENDING_WAITPOINTS
from flowfabric.model.machine.lease import actor_of, close_waitpoints, hold
from flowfabric.model.machine.secrets import keyring
from flowfabric.model.machine.workspace import Workspace, step
from flowfabric.model.records import VERSION, Execution, Waitpoint
from flowfabric.model.tokens import mint

NEVER_USED: Final = "never_committed"
"""How a pending waitpoint is closed whose time is over."""


@step(CreateWaitpoint)
def create_waitpoint(space: Workspace, command: CreateWaitpoint) -> WaitpointCreated:
    """Open a waitpoint whose token can be handed out before the suspension that will use it."""
    run = hold(space, command)
    _require_unused(space, run, command.waitpoint_id)
    if len(run.pending_waitpoints) >= MAX_PENDING_WAITPOINTS:
        limit = f"an execution has at most {MAX_PENDING_WAITPOINTS} pending waitpoints; close one first"
        raise invalid("waitpoint_id", limit)
    token = mint(keyring(space), run.execution_id, command.waitpoint_id, command.waitpoint_key, space.now)
    expires_at = min(space.now + command.expires_in_ms, MAX_INT)
    _forget_signals(space, run, command.waitpoint_id)
    waitpoint = Waitpoint(
        VERSION, command.waitpoint_id, run.attempt.index, command.waitpoint_key, token, "pending", space.now,
        expires_at=expires_at, message=command.message, details=command.details,
    )  # fmt: skip
    space.put("waitpoint", run.execution_id, command.waitpoint_id, value=waitpoint)
    pending = (*run.pending_waitpoints, (command.waitpoint_id, expires_at))
    space.put_execution(
        replace(run, pending_waitpoints=pending, last_mutation_at=space.now), "waitpoint_created",
        actor=actor_of(run, command), before=run.public_state,
        details=(("waitpoint_id", command.waitpoint_id), ("waitpoint_key", command.waitpoint_key)),
    )  # fmt: skip
    return WaitpointCreated(OpenWaitpoint(command.waitpoint_id, command.waitpoint_key, token))


@step(CloseWaitpoint)
def close_waitpoint(space: Workspace, command: CloseWaitpoint) -> WaitpointClosed:
    """Close a pending waitpoint; one that belongs to a suspension ends with it."""
    run = space.execution(command.execution_id)
    waitpoint: Waitpoint | None = space.get("waitpoint", run.execution_id, command.waitpoint_id)
    if waitpoint is None:
        raise refuse("waitpoint_not_found", field="waitpoint_id")
    if waitpoint.state == "closed":
        return WaitpointClosed(already=True)
    if waitpoint.state != "pending":
        problem = "it belongs to a suspension and closes with it"
        raise refuse("waitpoint_not_open", text=problem, field="waitpoint_id")
    drop_pending(space, run, (command.waitpoint_id,), command.reason, actor=command.actor)
    return WaitpointClosed(already=False)


def drop_pending(
    space: Workspace, run: Execution, waitpoint_ids: tuple[str, ...], reason: str, *, actor: str
) -> Execution:
    """Close pending waitpoints that will not be used, with one line of history for each."""
    close_waitpoints(space, run, waitpoint_ids, reason)
    for waitpoint_id in waitpoint_ids:
        rest = without_pending(run, waitpoint_id)
        run = space.put_execution(
            replace(run, pending_waitpoints=rest, last_mutation_at=space.now), "waitpoint_closed",
            actor=actor, before=run.public_state, reason=reason, details=(("waitpoint_id", waitpoint_id),),
        )  # fmt: skip
    return run


def without_pending(run: Execution, waitpoint_id: str) -> tuple[tuple[str, int], ...]:
    """Return the pending waitpoints of an execution but one."""
    return tuple(entry for entry in run.pending_waitpoints if entry[0] != waitpoint_id)


def bind(space: Workspace, run: Execution, command: Suspend, timeout_at: int) -> tuple[Waitpoint, ...]:
    """Make the waitpoints of a suspension: the pending one that it uses, or fresh ones with their tokens."""
    if command.waitpoints[0].pending:
        used = _usable(space, run, command)
        return (
            replace(
                used, state="active", suspension_id=command.suspension_id, activated_at=space.now,
                expires_at=timeout_at, message=command.message or used.message,
                details=command.details or used.details,
            ),
        )  # fmt: skip
    for binding in command.waitpoints:
        _require_unused(space, run, binding.waitpoint_id)
    fresh = tuple(_fresh(space, run, command, binding, timeout_at) for binding in command.waitpoints)
    for waitpoint in fresh:
        _forget_signals(space, run, waitpoint.waitpoint_id)
    return fresh


def _usable(space: Workspace, run: Execution, command: Suspend) -> Waitpoint:
    binding = command.waitpoints[0]
    waitpoint: Waitpoint | None = space.get("waitpoint", run.execution_id, binding.waitpoint_id)
    if waitpoint is None:
        raise refuse("waitpoint_not_found", field="waitpoints")
    if waitpoint.state != "pending":
        late = waitpoint.close_reason == NEVER_USED  # whether the timer has passed by makes no difference
        raise refuse("pending_waitpoint_expired" if late else "waitpoint_not_pending", field="waitpoints")
    if waitpoint.attempt_index != run.attempt.index:
        raise refuse("invalid_waitpoint_for_execution", field="waitpoints")
    if waitpoint.expires_at <= space.now:
        raise refuse("pending_waitpoint_expired", field="waitpoints")
    if len(command.waitpoints) > 1:
        raise refuse("use_pending_with_extras_unsupported", field="waitpoints")
    # Only the record knows the key: a condition that listens elsewhere would wait for ever.
    wanted = {*referenced_keys(command.condition), binding.waitpoint_key} - {""}
    if wanted - {waitpoint.waitpoint_key}:
        raise invalid("waitpoints", "waitpoint_key_mismatch")
    return waitpoint


def _fresh(
    space: Workspace, run: Execution, command: Suspend, binding: Binding, timeout_at: int
) -> Waitpoint:
    token = mint(keyring(space), run.execution_id, binding.waitpoint_id, binding.waitpoint_key, space.now)
    return Waitpoint(
        VERSION, binding.waitpoint_id, run.attempt.index, binding.waitpoint_key, token, "active", space.now,
        suspension_id=command.suspension_id, activated_at=space.now, expires_at=timeout_at,
        message=command.message, details=command.details,
    )  # fmt: skip


def _require_unused(space: Workspace, run: Execution, waitpoint_id: str) -> None:
    known: Waitpoint | None = space.get("waitpoint", run.execution_id, waitpoint_id)
    if known is not None and known.state != "closed":
        raise refuse("waitpoint_already_exists", field="waitpoint_id")


def _forget_signals(space: Workspace, run: Execution, waitpoint_id: str) -> None:
    """Drop what a closed waitpoint of the same id has received: it says nothing to the new one."""
    known: Waitpoint | None = space.get("waitpoint", run.execution_id, waitpoint_id)
    if known is not None and known.signal_count:
        for signal in space.children("signal", run.execution_id, waitpoint_id):
            space.put("signal", run.execution_id, waitpoint_id, signal.number, value=None)
