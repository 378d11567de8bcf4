"""Leases that this process holds, as far as it knows."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from flowfabric.model.contracts.base import Fence
from flowfabric.model.contracts.lease import Renew, Task
from flowfabric.model.errors import FlowFabricError

UNHEALTHY: Final = 3
"""So many renewals in a row may fail before a lease counts as in danger."""


class HeldLease:
    """One lease that is kept until it is let go or lost."""

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
        """When the answer of the claim was here."""
        self.since = since
        """When it was last known to be renewed, by the clock of this process; never too late."""
        self.expires = since + ttl_ms / 1000
        self.asked = 0.0
        """When the renewal was asked for whose answer is still to come; 0: there is none."""
        self.doubt: FlowFabricError | None = None
        """Why nobody knows whether the last renewal was done; it is asked for again soon."""
        self.failures = 0
        self.counts = False
        """Whether the next failure is counted: one in a third of a life is, however often it is tried again."""
        self.loss: FlowFabricError | None = None
        self.on_loss: Callable[[FlowFabricError], None] | None = None
        """Called once, in the loop of the handlers."""

    def renewal(self) -> Renew:
        """The command that renews it."""
        return Renew(execution_id=self.execution_id, fence=self.fence, lease_ttl_ms=self.ttl_ms)

    @property
    def healthy(self) -> bool:
        """Whether the lease is held, as far as anybody here knows."""
        return self.loss is None and self.failures < UNHEALTHY and time.monotonic() < self.expires

    def renewed(self, since: float) -> None:
        """Note a renewal that was asked for at a time; answers may come in another order than they were asked for."""
        self.failures, self.doubt = 0, None
        if since > self.since:
            self.since = since
            self.expires = since + self.ttl_ms / 1000

    def lose(self, error: FlowFabricError) -> None:
        """Note that the lease is gone; whoever works under it is told once."""
        if self.loss is None:
            self.loss = error
            if self.on_loss is not None:
                self.on_loss(error)
