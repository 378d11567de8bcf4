"""Tasks, built from the parts that a claim answers by the same code that builds them on every other store."""

from __future__ import annotations

from flowfabric.model.machine.workspace import Workspace
from flowfabric.model.operations.claim import Task, plain_task, task_of
from flowfabric.model.records import Execution, Payload, SignalRef, Suspension
from flowfabric.model.views import head_of
from flowfabric.storage.valkey.codec import decode
from flowfabric.storage.valkey.executions import leased
from flowfabric.storage.valkey.operations.calls import Reply


def read_task(reply: Reply) -> Task:
    """Build a task: id, packed hot fields, input, policy, and for resumed work and stored steps what belongs to it."""
    run: Execution = leased(reply.text("id"), reply.bytes("record"))
    payload = Payload(reply.bytes("input"), reply.bytes("policy"))
    more = reply.any("more")
    if not more:
        return plain_task(run, payload)
    space = Workspace(0)
    space.learn(("payload", (run.execution_id,)), payload)
    _learn_more(space, run, Reply(reply.function, more))
    return task_of(space, run)


def _learn_more(space: Workspace, run: Execution, reply: Reply) -> None:
    packed = reply.bytes("suspension")
    signals = [decode("signal", data) for data in reply.list("signals")]
    if packed:
        suspension: Suspension = decode("suspension", packed)
        space.learn(("suspension", (run.execution_id,)), suspension)
        found = {SignalRef(signal.waitpoint_id, signal.number): signal for signal in signals}
        for ref in suspension.satisfiers:
            need = ("signal", (run.execution_id, ref.waitpoint_id, ref.number))
            space.learn(need, found.get(ref))
    steps = [decode("step", data) for data in reply.list("steps")]
    for step in steps:
        space.learn(("step", (run.execution_id, step.name)), step)
    space.learn(("heads", (run.execution_id,)), tuple(head_of(step) for step in steps))
