"""Commands that suspend an execution and resume it by a signal."""

from __future__ import annotations

from flowfabric.model.conditions import Condition, Node, single
from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.signal import DeliverSignal
from flowfabric.model.operations.suspend import Binding, Suspend, Suspended
from flowfabric.storage.minting import new_uuid


def suspend(task: Task, count: int) -> Suspend:
    """Return a command that suspends until the first signal on any of `count` new waitpoints."""
    keys = tuple(f"wpk:{n}" for n in range(count))
    condition = single(keys[0], "go")
    if count > 1:
        condition = Condition(form="tree", tree=(Node("Count", "", keys, "go", 1, "DistinctWaitpoints"),))
    return Suspend(
        execution_id=task.execution_id,
        fence=task.fence,
        suspension_id=new_uuid(),
        waitpoints=tuple(Binding(new_uuid(), key) for key in keys),
        condition=condition,
    )


def deliver(execution_id: str, suspended: object) -> DeliverSignal:
    """Return a command that signals the first waitpoint of a suspension."""
    assert isinstance(suspended, Suspended)
    waitpoint = suspended.waitpoint
    return DeliverSignal(
        execution_id=execution_id,
        waitpoint_id=waitpoint.waitpoint_id,
        waitpoint_token=waitpoint.waitpoint_token,
        signal_id=new_uuid(),
        signal_name="go",
        payload=b"{}",
    )
