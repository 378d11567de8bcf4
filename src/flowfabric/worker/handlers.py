"""What a worker is made of: handlers, what they depend on, and how much of everything it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from flowfabric.codecs import JSON, Codec, Duration, Signature

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
