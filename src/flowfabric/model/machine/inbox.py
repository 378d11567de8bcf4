"""Waits as they are seen from outside: suspensions, open waitpoints, and the signals that ended a wait."""

from __future__ import annotations

from typing import Final

from flowfabric.model.conditions import required_signal_names
from flowfabric.model.contracts.lease import SignalView
from flowfabric.model.contracts.reads import (
    PAGE_MAX,
    GetSuspension,
    InboxPage,
    ListWaitpoints,
    ObserveSignals,
    ReadInbox,
    ReadToken,
    WaitpointPage,
    WaitpointView,
)
from flowfabric.model.machine.claim import satisfying
from flowfabric.model.machine.lease import waitpoints_of
from flowfabric.model.machine.workspace import Workspace, step
from flowfabric.model.records import Suspension, Waitpoint
from flowfabric.model.state import Phase
from flowfabric.model.tokens import fingerprint

FEWEST: Final = 17
"""How many waitpoints are looked at in one go, however few are asked for."""


@step(GetSuspension)
def get_suspension(space: Workspace, question: GetSuspension) -> Suspension | None:
    """Return the current or last suspension."""
    run = space.execution(question.execution_id)
    suspension: Suspension | None = space.get("suspension", run.execution_id)
    return suspension


@step(ObserveSignals)
def observe_signals(space: Workspace, question: ObserveSignals) -> tuple[SignalView, ...]:
    """Return the signals that satisfied the last suspension, as long as its attempt is the current one."""
    run = space.execution(question.execution_id)
    suspension: Suspension | None = space.get("suspension", run.execution_id)
    if (
        suspension is None
        or suspension.attempt_index != run.attempt.index
        or suspension.close_reason != "resumed"
    ):
        return ()
    return satisfying(space, run, suspension)


@step(ReadToken)
def read_token(space: Workspace, question: ReadToken) -> str | None:
    """Return the token of a waitpoint that signals may still reach."""
    run = space.execution(question.execution_id)
    waitpoint: Waitpoint | None = space.get("waitpoint", run.execution_id, question.waitpoint_id)
    return waitpoint.token if waitpoint is not None and is_open(waitpoint, space.now) else None


@step(ListWaitpoints)
def list_waitpoints(space: Workspace, question: ListWaitpoints) -> WaitpointPage:
    """Return the open waitpoints of one execution. Its records name them; closed ones are not looked at."""
    run = space.execution(question.execution_id)
    suspension: Suspension | None = space.get("suspension", run.execution_id)
    named = {waitpoint_id for waitpoint_id, _ in run.pending_waitpoints}
    if suspension is not None and run.lifecycle_phase is Phase.SUSPENDED:
        named.update(waitpoints_of(suspension))
    ids = sorted(waitpoint_id for waitpoint_id in named if waitpoint_id > question.after)
    limit = min(max(question.limit, 1), PAGE_MAX)
    open_ones: list[Waitpoint] = []
    at_once = max(limit + 1, FEWEST)  # one more than was asked for tells that there are more
    for at in range(0, len(ids), at_once):
        keys = ((run.execution_id, waitpoint_id) for waitpoint_id in ids[at : at + at_once])
        found: list[Waitpoint | None] = space.several("waitpoint", keys)
        open_ones += [each for each in found if each is not None and is_open(each, space.now)]
        if len(open_ones) > limit:
            break
    shown = open_ones[:limit]
    return WaitpointPage(
        tuple(_waitpoint_view(run.execution_id, waitpoint, suspension) for waitpoint in shown),
        shown[-1].waitpoint_id if len(shown) < len(open_ones) else "",
    )


@step(ReadInbox)
def read_inbox(space: Workspace, question: ReadInbox) -> InboxPage:
    """Return the open waitpoints of all executions; a page may be short while there is a next one."""
    rows: tuple[tuple[int, str, Waitpoint], ...] = space.get(
        "inbox", question.namespace, question.after, question.limit
    )
    suspensions = space.several("suspension", ((execution_id,) for _, execution_id, _ in rows))
    shown = tuple(
        _waitpoint_view(execution_id, waitpoint, suspension)
        for (_, execution_id, waitpoint), suspension in zip(rows, suspensions, strict=True)
        if is_open(waitpoint, space.now)
    )
    return InboxPage(shown, rows[-1][0] if len(rows) == question.limit else 0)


def is_open(waitpoint: Waitpoint, now: int) -> bool:
    """Whether a token still opens it. The clock ends only pending ones; a suspension ends by its timer."""
    if not waitpoint.token:
        return False
    if waitpoint.state == "pending":
        return not waitpoint.expires_at or waitpoint.expires_at > now
    return waitpoint.state == "active"


def _waitpoint_view(execution_id: str, waitpoint: Waitpoint, suspension: Suspension | None) -> WaitpointView:
    # The last suspension may be over while a waitpoint is pending for the next one.
    mine = suspension if suspension and suspension.suspension_id == waitpoint.suspension_id else None
    kid, digest = fingerprint(waitpoint.token)
    return WaitpointView(
        execution_id, waitpoint.waitpoint_id, waitpoint.waitpoint_key, waitpoint.state,
        required_signal_names(mine.condition) if mine else (), waitpoint.created_at, waitpoint.activated_at,
        waitpoint.expires_at, kid, digest, mine.reason_code if mine else "", waitpoint.message, waitpoint.details,
    )  # fmt: skip
