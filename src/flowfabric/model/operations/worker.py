"""Register workers, take their heartbeats, and list them."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from flowfabric.model import checks
from flowfabric.model.checks import worker_capabilities
from flowfabric.model.command import Command, NamespaceQuestion, ReadRequest
from flowfabric.model.errors import invalid
from flowfabric.model.limits import LIVENESS_MS, MAX_LANES_PER_CLAIM, MAX_LIVENESS_MS, MAX_NAME_BYTES
from flowfabric.model.machine.group import step
from flowfabric.model.machine.workspace import Workspace
from flowfabric.model.presence import alive, expires_at, presence, presence_key, unwritten
from flowfabric.model.record_kinds import WORKER, IndexQuery
from flowfabric.model.records import VERSION, Worker


class _WorkerCommand(Command[object], frozen=True, kw_only=True):
    worker_instance_id: str
    namespace: str = "default"

    def check(self) -> None:
        """Check the names."""
        super().check()
        checks.worker("worker_instance_id", self.worker_instance_id)
        checks.name("namespace", self.namespace)

    def reads(self) -> tuple[ReadRequest, ...]:
        """The worker."""
        return ((WORKER, (self.namespace, self.worker_instance_id)),)


class Registered(Struct, frozen=True):
    """A worker is known now."""


class Refreshed(Struct, frozen=True):
    """A known worker lives on."""

    next_expiry: int


class RegisterWorker(_WorkerCommand, frozen=True, kw_only=True):
    """Announce a worker, its lanes and what it can do; answers Registered or Refreshed."""

    worker_id: str
    lanes: tuple[str, ...]
    capabilities: tuple[str, ...] = ()
    liveness_ttl_ms: int = LIVENESS_MS
    kinds: tuple[str, ...] | None = None
    """What it takes, until its first claim says so; None: any kind."""

    def check(self) -> None:
        """Check every field."""
        super().check()
        checks.worker("worker_id", self.worker_id)
        if not 1 <= len(self.lanes) <= MAX_LANES_PER_CLAIM:
            raise invalid("lanes", f"name 1 to {MAX_LANES_PER_CLAIM} lanes")
        for lane in self.lanes:
            checks.lane(lane, "lanes")
        checks.worker_capabilities(self.capabilities)
        checks.integer("liveness_ttl_ms", self.liveness_ttl_ms, 1, MAX_LIVENESS_MS)
        checks.kinds(self.kinds)


@step(RegisterWorker)
def register_worker(space: Workspace, command: RegisterWorker) -> Registered | Refreshed:
    """Write down what a worker serves; a repeat overwrites it."""
    known = _living(space, command)
    if known is not None and known.worker_id != command.worker_id:
        raise invalid("worker_instance_id", "instance_id reassigned")
    registered_at = known.registered_at if known is not None else 0
    worker = Worker(
        VERSION,
        command.worker_id,
        command.worker_instance_id,
        command.namespace,
        tuple(sorted(set(command.lanes))),
        worker_capabilities(command.capabilities),
        space.now,
        command.liveness_ttl_ms,
        registered_at or space.now,
        tuple(sorted(set(command.kinds or ()))),
    )
    _write(space, command, worker)
    return Refreshed(expires_at(worker)) if registered_at else Registered()


class NotRegistered(Struct, frozen=True):
    """No live worker of that instance is known; register it."""


class HeartbeatWorker(_WorkerCommand, frozen=True, kw_only=True):
    """Say that a registered worker lives; answers Refreshed or NotRegistered."""


@step(HeartbeatWorker)
def heartbeat_worker(space: Workspace, command: HeartbeatWorker) -> Refreshed | NotRegistered:
    """Lengthen the life of a worker. One whose time is over was counted as gone and must register again."""
    known = _living(space, command)
    if known is None or not known.registered_at:
        return NotRegistered()
    worker = replace(known, last_heartbeat_at=space.now)
    _write(space, command, worker)
    return Refreshed(expires_at(worker))


class Marked(Struct, frozen=True):
    """The worker is dead from now on."""


class MarkWorkerDead(_WorkerCommand, frozen=True, kw_only=True):
    """Forget a worker that is gone; answers Marked or NotRegistered. Its leases are taken one by one."""

    reason: str = ""

    def check(self) -> None:
        """Check the reason."""
        super().check()
        if self.reason:
            checks.name("reason", self.reason)


@step(MarkWorkerDead)
def mark_worker_dead(space: Workspace, command: MarkWorkerDead) -> Marked | NotRegistered:
    """Forget a worker at once; one that only claimed can be marked too, because it may hold leases."""
    if _living(space, command) is None:
        return NotRegistered()
    _write(space, command, None)
    return Marked()


def _living(space: Workspace, command: RegisterWorker | HeartbeatWorker | MarkWorkerDead) -> Worker | None:
    key = (command.namespace, command.worker_instance_id)
    known = space.get(WORKER, *key)
    for claim in unwritten((effect.key, effect.value) for effect in space.effects if effect.kind == "seen"):
        if presence_key(claim) == key:  # earlier in the same group
            known = presence(claim, known, space.now) or known
    return known if known is not None and alive(known, space.now) else None


def _write(
    space: Workspace, command: RegisterWorker | HeartbeatWorker | MarkWorkerDead, worker: Worker | None
) -> None:
    """Write a worker down by name; what claims of the same group have told of it is part of that."""
    space.put(WORKER, command.namespace, command.worker_instance_id, value=worker)
    space.emit("seen", command.namespace, command.worker_instance_id)


class ListWorkers(NamespaceQuestion[tuple[Worker, ...]], frozen=True, kw_only=True):
    """Return workers that live now, by namespace and instance."""

    after: tuple[str, str] = ("", "")
    """Namespace and instance of the last worker that was seen; in one namespace only the instance counts."""

    def check(self) -> None:
        """Check the cursor."""
        super().check()
        if len(self.after) != 2:
            raise invalid("after", "give the namespace and the instance of the last worker that was seen")
        for part in self.after:
            checks.text("after", part, max_bytes=MAX_NAME_BYTES, empty=True)


WORKERS: Final[IndexQuery[tuple[Worker, ...]]] = IndexQuery("workers")


@step(ListWorkers)
def list_workers(space: Workspace, question: ListWorkers) -> tuple[Worker, ...]:
    """Return a page of the workers that live now."""
    namespace, instance = question.after
    after = (question.namespace or namespace, instance)
    return space.get(WORKERS, question.namespace, *after, question.limit)
