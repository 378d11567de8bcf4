"""How executions and waitpoints are shown."""

from __future__ import annotations

from flowfabric.server.errors import HttpError
from flowfabric.shapes import attempt, event, kind, present, summary, vector, waitpoint

__all__ = ["attempt", "event", "execution_not_found", "kind", "present", "summary", "vector", "waitpoint"]


def execution_not_found(execution_id: str, what: str = "execution") -> HttpError:
    """Say that there is no such execution, or no such part of it."""
    return HttpError(404, f"{what} not found: {execution_id}", "execution_not_found")
