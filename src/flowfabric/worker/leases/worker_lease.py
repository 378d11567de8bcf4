"""A lease that this process holds, as far as it knows."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from flowfabric.model.command import Fence
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.lease import Renew

UNHEALTHY: Final = 3
"""How many renewals in a row may fail before a lease counts as unhealthy."""


class WorkerLease:
    """One lease, renewed until it is dropped or lost."""

    __slots__ = (
        "asked",
        "begun",
        "counts",
        "doubt",
        "execution_id",
        "expires",
        "failures",
        "fence",
        "loss",
        "on_loss",
        "since",
        "ttl_ms",
    )

    def __init__(self, task: Task, ttl_ms: int, since: float) -> None:
        self.execution_id = task.execution_id
        self.fence: Fence = task.fence
        self.ttl_ms = ttl_ms
        self.begun = time.monotonic()
        """When the answer of the claim arrived."""
        self.since = since
        """When the last successful renewal was sent, by the clock of this process: never later than at the store."""
        self.expires = since + ttl_ms / 1000
        self.asked = 0.0
        """When the unanswered renewal was sent; 0 if there is none."""
        self.doubt: FlowFabricError | None = None
        """Why the result of the last renewal is unknown; it is retried soon."""
        self.failures = 0
        self.counts = False
        """Whether the next failure is counted: at most one per third of the TTL, however often the call is retried."""
        self.loss: FlowFabricError | None = None
        self.on_loss: Callable[[FlowFabricError], None] | None = None
        """Called once when the lease is lost, on the event loop of the handlers."""

    def renewal(self) -> Renew:
        """Return the command that renews the lease."""
        return Renew(execution_id=self.execution_id, fence=self.fence, lease_ttl_ms=self.ttl_ms)

    @property
    def healthy(self) -> bool:
        """Whether the lease is held, as far as this process knows."""
        return self.loss is None and self.failures < UNHEALTHY and time.monotonic() < self.expires

    def renewed(self, since: float) -> None:
        """Record a successful renewal that was sent at a time. Answers may arrive out of order."""
        self.failures, self.doubt = 0, None
        if since > self.since:
            self.since = since
            self.expires = since + self.ttl_ms / 1000

    def lose(self, error: FlowFabricError) -> None:
        """Record that the lease is gone, and call `on_loss` once."""
        if self.loss is None:
            self.loss = error
            if self.on_loss is not None:
                self.on_loss(error)
