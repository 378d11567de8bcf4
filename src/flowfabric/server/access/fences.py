"""The fence of a running execution (lease id, epoch, attempt id) opens the verbs of its holder: operators alone see it.

Whoever else reads an execution, its attempts or its history gets them without what a fence is made of. The id of a
claim is left out with it: a repeat of the claim would bring the fence. The epoch alone is no secret, it counts leases.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar, cast

from msgspec.structs import replace

from flowfabric.model.operations.read import Description, HistoryPage
from flowfabric.model.operations.read_list import ExecutionPage, FeedEntry, FeedPage, QueuePage
from flowfabric.model.records import Attempt, Event, Execution
from flowfabric.model.state import Ownership
from flowfabric.server.access.roles import Principal
from flowfabric.wire.rights import Right

R = TypeVar("R")
PARTS: Final = frozenset({"lease_id", "attempt_id"})


def sees_fences(principal: Principal) -> bool:
    """Whether somebody may see fences."""
    return principal.may(Right.OPERATE)


def seen_by(principal: Principal, found: R) -> R:
    """Return an answer of the engine as somebody may see it."""
    return found if sees_fences(principal) else cast("R", _without_fence(found))


def _without_fence(found: Any) -> Any:
    match found:
        case Execution():
            return _run(found)
        case Attempt():
            return _attempt(found)
        case Event():
            return line_without_fence(found)
        case Description():
            return replace(found, run=_run(found.run))
        case FeedEntry():
            return replace(found, event=line_without_fence(found.event))
        case ExecutionPage() | QueuePage():
            return replace(found, runs=_without_fence(found.runs))
        case HistoryPage():
            return replace(found, events=_without_fence(found.events))
        case FeedPage():
            return replace(found, entries=_without_fence(found.entries))
        case tuple():
            return tuple(_without_fence(each) for each in found)
        case _:
            return found


def line_without_fence(line: Event) -> Event:
    """Return a line of history that does not name the lease."""
    return replace(line, details=tuple((name, value) for name, value in line.details if name not in PARTS))


def _run(run: Execution) -> Execution:
    if run.ownership_state is not Ownership.LEASED:
        return run
    return replace(
        run,
        current_lease_id="",
        current_attempt_id="",
        claim_id="",
        attempt=_attempt(run.attempt),
    )


def _attempt(attempt: Attempt) -> Attempt:
    return attempt if attempt.ended_at else replace(attempt, attempt_id="", lease_id="")
