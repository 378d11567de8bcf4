"""The parts of a worker that its user supplies: handlers, dependencies and settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol

from flowfabric.codecs import JSON, Codec, Duration, Signature, millis
from flowfabric.model import checks
from flowfabric.model.errors import FlowFabricError, invalid
from flowfabric.model.limits import MAX_CAPABILITIES, MAX_LEASE_TTL_MS, MAX_NAME_BYTES, MIN_LEASE_TTL_MS

LONGEST_WORKER_BYTES: Final = MAX_NAME_BYTES - 48
"""Leaves room for the process id and the 128 random bits that an instance id adds to the worker id."""

Executor = Literal["loop", "thread", "process"]
"""Where a handler runs: an `async def` on the event loop, a `def` in a thread, either in a separate process."""


@dataclass(frozen=True, slots=True)
class Handler:
    """The function that runs one kind of execution, and how to call it."""

    kind: str
    """`review`, or `review@2` for its second version."""
    function: Callable[..., Any]
    """The function as it was written."""
    signature: Signature
    """Decodes the input into arguments: `Signature.of(function, skip=…)`."""
    context: str = ""
    """The parameter that takes the context; empty if there is none."""
    dependencies: Mapping[str, type] = field(default_factory=dict)
    """Parameters that take dependencies, and their types."""
    returns: Any = Any
    """The type of its result."""
    executor: Executor = "loop"
    """`loop`, `thread` or `process`."""
    lane: str = "default"
    """The lane in which its executions wait."""
    codec: Codec = JSON
    """The codec of its result."""


class Resolver(Protocol):
    """Opens the dependencies of handlers, once for each worker."""

    async def open(self) -> None:
        """Open all dependencies; called before the first task is claimed."""

    def get(self, type_: type) -> Any:
        """Return the dependency of a type."""

    async def close(self) -> None:
        """Close all dependencies; called after the last handler has ended."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The settings of a worker. Durations are seconds, or text such as `30s`."""

    lanes: tuple[str, ...] = ()
    """The lanes to claim from; empty for the lanes of its handlers."""
    concurrency: int = 16
    """How many handlers run at once."""
    prefetch: int = 0
    """How many tasks to claim ahead of those that run, so that a free slot need not wait for a claim."""
    lease_ttl: Duration = "30s"
    """How long a lease lasts without renewal. A live worker renews it three times in that time."""
    grace: Duration = "10s"
    """How long running handlers may continue after a stop before their leases are given back."""
    capabilities: tuple[str, ...] = ()
    """The capabilities of this worker. It does not claim work that requires others."""
    namespace: str = ""
    """The namespace to claim from; empty for any."""
    worker_id: str = ""
    """The name of the pool that this worker belongs to; empty for the host name."""
    claim_wait: Duration = "20s"
    """How long one claim waits for work."""
    heartbeat: Duration = "10s"
    """How often the worker sends a heartbeat."""

    def checked(self) -> WorkerSettings:
        """Return the settings with a concurrency of at least 1; raise `InvalidInput` if a store would refuse them."""
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
    """Return a count; raise `InvalidInput` if it is not a whole number from 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise invalid(field, f"{value!r} is no count: write a whole number that is not negative")
    return value


def words(field: str, values: Iterable[str]) -> tuple[str, ...]:
    """Return several names; raise `InvalidInput` for a single string, which would be split into its letters."""
    if isinstance(values, str):
        raise invalid(field, f"give a list, such as [{values!r}], and not a text alone")
    return tuple(values)


def capabilities(values: Iterable[str], field: str = "capabilities") -> tuple[str, ...]:
    """Return the names of capabilities; raise `InvalidInput` if one is malformed."""
    found = words(field, values)
    try:
        checks.worker_capabilities(list(found))
    except FlowFabricError as error:
        rule = "names without spaces and commas, such as 'gpu' or 'provider=x'"
        raise invalid(
            field, f"{rule}, at most {MAX_CAPABILITIES} ({error.details[0].rpartition(':')[2]})"
        ) from error
    return found
