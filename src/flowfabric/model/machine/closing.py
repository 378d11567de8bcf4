"""Close the stream, the waitpoints and the suspension of an execution."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from flowfabric.model.machine.workspace import Workspace
from flowfabric.model.record_kinds import STREAM, SUSPENSION, WAITPOINT
from flowfabric.model.records import Execution, Suspension


def close_stream(space: Workspace, run: Execution, reason: str, *, override: bool = False) -> None:
    """Close the current attempt's stream, if it has one; a reason given first stands unless overridden."""
    if not run.has_stream or not reason:
        return
    stream = space.require(STREAM, run.execution_id, run.attempt.index)
    if stream.closed_at and not override:
        return
    closed = replace(stream, closed_at=stream.closed_at or space.now, closed_reason=reason)
    space.put(STREAM, run.execution_id, run.attempt.index, value=closed)


def close_waitpoints(space: Workspace, run: Execution, waitpoint_ids: Iterable[str], reason: str) -> None:
    """Close those of some waitpoints that are still open."""
    waitpoints = space.several(
        WAITPOINT, ((run.execution_id, waitpoint_id) for waitpoint_id in waitpoint_ids)
    )
    for waitpoint in waitpoints:
        if waitpoint is not None and waitpoint.state != "closed":
            closed = replace(waitpoint, state="closed", closed_at=space.now, close_reason=reason)
            space.put(WAITPOINT, run.execution_id, waitpoint.waitpoint_id, value=closed)


def waitpoints_of(suspension: Suspension) -> tuple[str, ...]:
    """Name the waitpoints of a suspension, the primary one first."""
    return (suspension.waitpoint_id, *(waitpoint_id for waitpoint_id, _ in suspension.additional))


def close_suspension(space: Workspace, run: Execution, reason: str, **changes: Any) -> Suspension:
    """Close the current suspension and every waitpoint of it."""
    suspension = space.require(SUSPENSION, run.execution_id)
    close_waitpoints(space, run, waitpoints_of(suspension), reason)
    closed = replace(suspension, closed_at=space.now, close_reason=reason, **changes)
    space.put(SUSPENSION, run.execution_id, value=closed)
    return closed
