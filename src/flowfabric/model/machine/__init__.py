"""The state machine: one pure step for every operation. Importing this package registers all of them."""

from flowfabric.model.machine import claim, create, grants, holder, operators, timers
from flowfabric.model.machine.workspace import Effect, Head, Wishes, Workspace, run_group

__all__ = [
    "Effect",
    "Head", "Wishes", "Workspace", "claim", "create", "grants", "holder", "operators", "run_group", "timers",
]  # fmt: skip
