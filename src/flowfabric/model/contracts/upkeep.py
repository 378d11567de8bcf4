"""What happens by itself, and what keeps the deployment going: timers, workers, secrets."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from flowfabric.model import checks
from flowfabric.model.contracts.base import Command, ExecutionCommand, Need
from flowfabric.model.contracts.create import AlreadySatisfied
from flowfabric.model.contracts.waiting import KEYRING
from flowfabric.model.errors import invalid
from flowfabric.model.limits import LIVENESS_MS, MAX_LANES_PER_CLAIM, MAX_LIVENESS_MS
from flowfabric.model.redaction import hide, shown, shown_text
from flowfabric.model.tokens import AlreadySeeded, Noop, Rotated, Seeded


class MarkedExpired(Struct, frozen=True):
    """The lease has run out; the work is claimable again."""


class MarkLeaseExpired(ExecutionCommand[MarkedExpired | AlreadySatisfied], frozen=True, kw_only=True):
    """Note that a lease has run out, if it has (T8)."""


class Swept(Struct, frozen=True):
    """What a timer's step did, in one word, and the state it left."""

    outcome: str
    public_state: str = ""


class PromoteDelayed(ExecutionCommand[Swept], frozen=True, kw_only=True):
    """Make delayed work eligible when its time has come (T3)."""


class ExpireSuspension(ExecutionCommand[Swept], frozen=True, kw_only=True):
    """Apply the timeout behaviour of a suspension whose time is over (T20, T22, T23)."""

    def needs(self) -> tuple[Need, ...]:
        """The execution and its suspension."""
        return (*super().needs(), ("suspension", (self.execution_id,)))


class ExpireExecution(ExecutionCommand[Swept], frozen=True, kw_only=True):
    """Act on an attempt timeout or a deadline that has passed (T14, T25)."""

    reason: str = "attempt_timeout"

    def check(self) -> None:
        """Check the reason."""
        super().check()
        if self.reason not in {"attempt_timeout", "execution_deadline"}:
            raise invalid("reason", "attempt_timeout or execution_deadline")


class ExpireWaitpoints(ExecutionCommand[Swept], frozen=True, kw_only=True):
    """Close pending waitpoints whose time is over."""


class Purge(ExecutionCommand[Swept], frozen=True, kw_only=True):
    """Delete an ended execution and all that belongs to it, when its retention is over."""


class LoseDeadLease(ExecutionCommand[MarkedExpired | AlreadySatisfied], frozen=True, kw_only=True):
    """Take a lease from a worker that is dead (T8, counted as a reclaim)."""

    worker_instance_id: str


class Registered(Struct, frozen=True):
    """A worker is known now."""


class Refreshed(Struct, frozen=True):
    """A known worker lives on."""

    next_expiry: int


class NotRegistered(Struct, frozen=True):
    """No live worker of that instance is known; register it."""


class Marked(Struct, frozen=True):
    """The worker is dead from now on."""


class _WorkerCommand(Command[object], frozen=True, kw_only=True):
    worker_instance_id: str
    namespace: str = "default"

    def check(self) -> None:
        """Check the names."""
        super().check()
        checks.worker("worker_instance_id", self.worker_instance_id)
        checks.name("namespace", self.namespace)

    def needs(self) -> tuple[Need, ...]:
        """The worker."""
        return (("worker", (self.namespace, self.worker_instance_id)),)


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


class HeartbeatWorker(_WorkerCommand, frozen=True, kw_only=True):
    """Say that a registered worker lives; answers Refreshed or NotRegistered."""


class MarkWorkerDead(_WorkerCommand, frozen=True, kw_only=True):
    """Forget a worker that is gone; answers Marked or NotRegistered. Its leases are taken one by one."""

    reason: str = ""

    def check(self) -> None:
        """Check the reason."""
        super().check()
        if self.reason:
            checks.name("reason", self.reason)


class SeedSecret(Command[Seeded | AlreadySeeded], frozen=True, kw_only=True):
    """Install the first waitpoint secret."""

    kid: str
    secret_hex: str

    def needs(self) -> tuple[Need, ...]:
        """The keys."""
        return (KEYRING,)

    def __repr__(self) -> str:
        return shown_text(self, secret_hex=hide)

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:  # type: ignore[override]
        return shown(self, secret_hex=hide)


class RotateSecret(Command[Rotated | Noop], frozen=True, kw_only=True):
    """Make a new waitpoint secret current; the old one verifies until its grace ends."""

    new_kid: str
    new_secret_hex: str
    grace_ms: int

    def needs(self) -> tuple[Need, ...]:
        """The keys."""
        return (KEYRING,)

    def __repr__(self) -> str:
        return shown_text(self, new_secret_hex=hide)

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:  # type: ignore[override]
        return shown(self, new_secret_hex=hide)
