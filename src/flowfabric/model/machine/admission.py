"""Decide whether claimable work may be leased now: the one place between finding work and leasing it."""

from __future__ import annotations

from flowfabric.model.machine.workspace import Workspace
from flowfabric.model.records import Execution


def admit(space: Workspace, run: Execution) -> bool:  # noqa: ARG001 - quotas and budgets will look at both
    """Return whether a claim may lease an execution; today every one.

    Whoever refuses must block the execution in the same step, so that it leaves its queue: a claim looks at the queue
    again until it has enough. A store that claims without this step must leave claims of limited work to it.
    """
    return True
