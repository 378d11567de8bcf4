"""What a worker is made of: handlers, what they depend on, and how much of everything it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol

from flowfabric.codecs import JSON, Codec, Duration, Signature, millis
from flowfabric.model import checks
from flowfabric.model.errors import FlowFabricError, invalid
from flowfabric.model.limits import MAX_CAPABILITIES, MAX_LEASE_TTL_MS, MAX_NAME_BYTES, MIN_LEASE_TTL_MS

LONGEST_WORKER_BYTES: Final = MAX_NAME_BYTES - 48
"""Leaves room for what an instance id adds to the worker id: the process id and 128 random bits."""

Executor = Literal["loop", "thread", "process"]
"""Where a handler runs: `async def` on the event loop, `def` in a thread, or in a process of its own."""


@dataclass(frozen=True, slots=True)
class Handler:
    """A function that works on one kind of execution, and how to call it."""

    kind: str
    """`review`, or `review@2` for its second version."""
    function: Callable[..., Any]
    """As its author wrote it."""
    signature: Signature
    """How the input becomes arguments: `Signature.of(function, skip=…)`."""
    context: str = ""
    """The parameter that takes the `Context`; empty when there is none."""
    dependencies: Mapping[str, type] = field(default_factory=dict)
    """Parameters that take what the worker has opened, by type."""
    returns: Any = Any
    """The type of what it returns."""
    executor: Executor = "loop"
    """`loop`, `thread` or `process`."""
    lane: str = "default"
    """Where its work waits."""
    codec: Codec = JSON
    """How its result is written."""


class Resolver(Protocol):
    """Opens what handlers depend on, once for each worker."""

    async def open(self) -> None:
        """Open everything; called before the first task is claimed."""

    def get(self, type_: type) -> Any:
        """Return the one of a type."""

    async def close(self) -> None:
        """Close everything; called after the last handler has ended."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How much a worker takes, and how long it holds it. Durations are seconds, or text such as `30s`."""

    lanes: tuple[str, ...] = ()
    """Where it takes work from; none: the lanes of its handlers."""
    concurrency: int = 16
    """How many handlers run at once."""
    prefetch: int = 0
    """How many tasks it holds besides those that run, so that a free slot need not wait for a claim."""
    lease_ttl: Duration = "30s"
    """How long the store waits for a worker that is silent; its lease is renewed three times in that time."""
    grace: Duration = "10s"
    """How long running handlers may go on after a stop before their leases are given back."""
    capabilities: tuple[str, ...] = ()
    """What this worker is able to do; work that requires something else is left to others."""
    namespace: str = ""
    """Only work of this namespace; empty means of any."""
    worker_id: str = ""
    """The name of the pool that this worker belongs to; empty: the name of the machine."""
    claim_wait: Duration = "20s"
    """How long one claim waits for work."""
    heartbeat: Duration = "10s"
    """How often the worker says that it lives."""

    def checked(self) -> WorkerSettings:
        """Refuse what no store would take, before work is waited for in vain; no concurrency at all counts as 1."""
        whole("concurrency", self.concurrency)
        whole("prefetch", self.prefetch)
        if not MIN_LEASE_TTL_MS <= millis(self.lease_ttl, "lease_ttl") <= MAX_LEASE_TTL_MS:
            raise invalid("lease_ttl", f"{self.lease_ttl!r} is out of range: from 1s to 1h")
        for lane in words("lanes", self.lanes):
            checks.lane(lane, "lanes")
        capabilities(self.capabilities)
        checks.name("namespace", self.namespace, empty=True)
        if self.worker_id:
            checks.name("worker_id", self.worker_id, LONGEST_WORKER_BYTES)
        for name in ("grace", "claim_wait", "heartbeat"):
            millis(getattr(self, name), name)
        return replace(self, concurrency=max(1, self.concurrency))


def whole(field: str, value: object) -> int:
    """Check a count."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise invalid(field, f"{value!r} is no count: write a whole number that is not negative")
    return value


def words(field: str, values: Iterable[str]) -> tuple[str, ...]:
    """Take several names; a text alone would be taken for its letters."""
    if isinstance(values, str):
        raise invalid(field, f"give a list, such as [{values!r}], and not a text alone")
    return tuple(values)


def capabilities(values: Iterable[str], field: str = "capabilities") -> tuple[str, ...]:
    """Take the names of what a worker can do, or must be able to do."""
    found = words(field, values)
    try:
        checks.worker_capabilities(list(found))
    except FlowFabricError as error:
        rule = "names without spaces and commas, such as 'gpu' or 'provider=x'"
        raise invalid(
            field, f"{rule}, at most {MAX_CAPABILITIES} ({error.details[0].rpartition(':')[2]})"
        ) from error
    return found
