"""The order in which the executions of a lane are claimed: one policy that every store follows.

A store keeps claimable work in an index that is sorted by `score` and, where scores are equal, by execution id; Lua
computes the same score. What the machine sorts itself, it sorts by `lane_position`.
"""

from __future__ import annotations

from flowfabric.model.limits import PRIORITY_STEP
from flowfabric.model.records import Execution

Position = tuple[int, str]
"""The score of an execution, and its id."""


def score(run: Execution) -> int:
    """Return the priority and the age of an execution as one number; lower runs sooner."""
    return run.created_at - run.priority * PRIORITY_STEP


def lane_position(run: Execution) -> Position:
    """Return where an execution stands among those of its lane; ids decide between equal scores."""
    return score(run), run.execution_id
