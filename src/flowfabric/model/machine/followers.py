"""Run what follows the end of an execution, in the step that ends it.

Flow edges, waiting parents, slots, budgets and schedules will follow endings. Each registers one function, which runs
once for every execution that reaches a terminal state, in whichever way, and whose writes are saved together with the
ending or not at all.

A follower is bounded: it handles at most `MAX_FOLLOWED` dependents in the step. For the rest it stages a continuation:
a record of its own, keyed by the execution, that says how far it has come, and that the index of what is due holds with
the present time (`DUE_AT` of `flowfabric.model.indexes`). The engine finds it there and sends the command that belongs
to its kind (`DUE_COMMANDS` of `flowfabric.model.operations.timer`); that step handles the next part, and deletes the
record with the last one. So a crash at any moment leaves either the ending unsaved, or a continuation that some process
will find.

A store that ends executions without these steps, as the fast paths of Valkey do, must leave executions that have
dependents to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from flowfabric.model.machine.workspace import Workspace
from flowfabric.model.records import Execution

MAX_FOLLOWED: Final = 100
"""How many dependents a follower may handle in one step."""

Follower = Callable[[Workspace, Execution], None]

FOLLOWERS: Final[list[Follower]] = []
"""Every function that follows endings, in the order in which they run; none today."""


def run_followers(space: Workspace, ended: Execution) -> None:
    """Run every follower of an execution that has just ended."""
    for follower in FOLLOWERS:
        follower(space, ended)
