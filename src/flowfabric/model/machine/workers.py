"""The workers that are known. One that was not heard of for its time to live counts as gone."""

from __future__ import annotations

from msgspec.structs import replace

from flowfabric.model.checks import worker_capabilities
from flowfabric.model.contracts.upkeep import (
    HeartbeatWorker,
    Marked,
    MarkWorkerDead,
    NotRegistered,
    Refreshed,
    Registered,
    RegisterWorker,
)
from flowfabric.model.errors import invalid
from flowfabric.model.machine.workspace import Workspace, step
from flowfabric.model.presence import alive, expires_at, presence, presence_key, unwritten
from flowfabric.model.records import VERSION, Worker


@step(RegisterWorker)
def register_worker(space: Workspace, command: RegisterWorker) -> Registered | Refreshed:
    """Write down what a worker serves; a repeat overwrites it."""
    known = _living(space, command)
    if known is not None and known.worker_id != command.worker_id:
        raise invalid("worker_instance_id", "instance_id reassigned")
    registered_at = known.registered_at if known is not None else 0
    worker = Worker(
        VERSION, command.worker_id, command.worker_instance_id, command.namespace,
        tuple(sorted(set(command.lanes))), worker_capabilities(command.capabilities), space.now,
        command.liveness_ttl_ms, registered_at or space.now, tuple(sorted(set(command.kinds or ()))),
    )  # fmt: skip
    _write(space, command, worker)
    return Refreshed(expires_at(worker)) if registered_at else Registered()


@step(HeartbeatWorker)
def heartbeat_worker(space: Workspace, command: HeartbeatWorker) -> Refreshed | NotRegistered:
    """Lengthen the life of a worker. One whose time is over was counted as gone and must register again."""
    known = _living(space, command)
    if known is None or not known.registered_at:
        return NotRegistered()
    worker = replace(known, last_heartbeat_at=space.now)
    _write(space, command, worker)
    return Refreshed(expires_at(worker))


@step(MarkWorkerDead)
def mark_worker_dead(space: Workspace, command: MarkWorkerDead) -> Marked | NotRegistered:
    """Forget a worker at once; one that only claimed can be marked too, because it may hold leases."""
    if _living(space, command) is None:
        return NotRegistered()
    _write(space, command, None)
    return Marked()


def _living(space: Workspace, command: RegisterWorker | HeartbeatWorker | MarkWorkerDead) -> Worker | None:
    key = (command.namespace, command.worker_instance_id)
    known: Worker | None = space.get("worker", *key)
    for claim in unwritten((effect.key, effect.value) for effect in space.effects if effect.kind == "seen"):
        if presence_key(claim) == key:  # earlier in the same group
            known = presence(claim, known, space.now) or known
    return known if known is not None and alive(known, space.now) else None


def _write(
    space: Workspace, command: RegisterWorker | HeartbeatWorker | MarkWorkerDead, worker: Worker | None
) -> None:
    """Write a worker down by name; what claims of the same group have told of it is part of that."""
    space.put("worker", command.namespace, command.worker_instance_id, value=worker)
    space.emit("seen", command.namespace, command.worker_instance_id)
