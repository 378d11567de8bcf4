"""A layer that measures store calls."""

from __future__ import annotations

from typing import Final, Protocol

from flowfabric.model.errors import (
    Conflict,
    FlowFabricError,
    Infrastructure,
    InvalidInput,
    NotFound,
    RetryLater,
    Severity,
    Unreachable,
)
from flowfabric.worker.layers.base import Layer


class Sink(Protocol):
    """Receives the measurements of `Metrics`."""

    def record(self, method: str, seconds: float, category: str) -> None:
        """Record one call; `category` is empty if it succeeded."""


class Metrics(Layer):
    """Passes the name, duration and error category of every store call to a `Sink`."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def after(self, method: str, seconds: float, error: FlowFabricError | None) -> None:
        """Record the call."""
        self._sink.record(method, seconds, "" if error is None else category_of(error))


_CATEGORIES: Final[tuple[tuple[type[FlowFabricError], str], ...]] = (
    (NotFound, "not_found"),
    (InvalidInput, "validation"),
    (RetryLater, "contention"),
    (Conflict, "conflict"),
    (Unreachable, "transport"),
    (Infrastructure, "unavailable"),
)


def category_of(error: FlowFabricError) -> str:
    """Return the category under which metrics count an error."""
    if error.severity is Severity.BUG:
        return "bug"
    if error.code in {"stale_lease", "lease_expired", "lease_revoked", "execution_not_active"}:
        return "state"
    return next((name for kind, name in _CATEGORIES if isinstance(error, kind)), "unknown")
