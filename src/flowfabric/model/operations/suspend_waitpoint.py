"""Open, close and list the waitpoints at which signals arrive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from flowfabric.model import checks
from flowfabric.model.command import (
    PAGE_MAX,
    ExecutionCommand,
    ExecutionQuestion,
    HolderCommand,
    Page,
    ReadRequest,
)
from flowfabric.model.conditions import required_signal_names
from flowfabric.model.errors import invalid, refuse
from flowfabric.model.ids import check_uuid
from flowfabric.model.limits import (
    MAX_INT,
    MAX_PENDING_WAITPOINTS,
    MAX_QUESTION_BYTES,
    MAX_QUESTION_DETAILS_BYTES,
    MAX_TEXT_BYTES,
)
from flowfabric.model.machine.closing import close_waitpoints, waitpoints_of
from flowfabric.model.machine.group import step
from flowfabric.model.machine.holding import actor_of, hold
from flowfabric.model.machine.workspace import Cause, Workspace
from flowfabric.model.operations.access_secret import KEYRING_REQUEST, keyring
from flowfabric.model.record_kinds import SIGNAL, SUSPENSION, WAITPOINT
from flowfabric.model.records import VERSION, Execution, Suspension, Waitpoint
from flowfabric.model.redaction import redact, shown, shown_text
from flowfabric.model.state import Phase
from flowfabric.model.tokens import fingerprint, mint


def check_question(message: str, details: str) -> None:
    """Check what a waitpoint shows to whoever is to answer."""
    checks.lines("message", message, MAX_QUESTION_BYTES)
    if not checks.text("details", details, max_bytes=MAX_QUESTION_DETAILS_BYTES, empty=True):
        return
    try:
        msgspec.json.decode(details, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError) as error:
        raise invalid("details", "must be a JSON object") from error


class OpenWaitpoint(Struct, frozen=True):
    """A waitpoint and the token that signals must carry. The token is a secret: `repr` hides it."""

    waitpoint_id: str
    waitpoint_key: str
    waitpoint_token: str

    def __repr__(self) -> str:
        return shown_text(self, waitpoint_token=redact)

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:  # type: ignore[override]
        return shown(self, waitpoint_token=redact)


class WaitpointCreated(Struct, frozen=True):
    """A pending waitpoint whose token can be handed out before suspending."""

    waitpoint: OpenWaitpoint


class CreateWaitpoint(HolderCommand[WaitpointCreated], frozen=True, kw_only=True):
    """Open a waitpoint ahead of the suspension that will use it."""

    waitpoint_id: str
    waitpoint_key: str
    expires_in_ms: int
    message: str = ""
    """What it shows to whoever is to answer."""
    details: str = ""
    """More about it: a JSON object as text."""

    def check(self) -> None:
        """Check id, key, time and question."""
        super().check()
        check_question(self.message, self.details)
        check_uuid("waitpoint_id", self.waitpoint_id)
        checks.name("waitpoint_key", self.waitpoint_key)
        checks.integer("expires_in_ms", self.expires_in_ms, 1, MAX_INT)

    def reads(self) -> tuple[ReadRequest, ...]:
        """The execution, the keys, and a waitpoint of that id."""
        return (*super().reads(), KEYRING_REQUEST, (WAITPOINT, (self.execution_id, self.waitpoint_id)))


@step(CreateWaitpoint)
def create_waitpoint(space: Workspace, command: CreateWaitpoint) -> WaitpointCreated:
    """Open a waitpoint whose token can be handed out before the suspension that will use it."""
    run = hold(space, command)
    require_unused(space, run, command.waitpoint_id)
    if len(run.pending_waitpoints) >= MAX_PENDING_WAITPOINTS:
        limit = f"an execution has at most {MAX_PENDING_WAITPOINTS} pending waitpoints; close one first"
        raise invalid("waitpoint_id", limit)
    token = mint(keyring(space), run.execution_id, command.waitpoint_id, command.waitpoint_key, space.now)
    expires_at = min(space.now + command.expires_in_ms, MAX_INT)
    forget_signals(space, run, command.waitpoint_id)
    waitpoint = Waitpoint(
        VERSION,
        command.waitpoint_id,
        run.attempt.index,
        command.waitpoint_key,
        token,
        "pending",
        space.now,
        expires_at=expires_at,
        message=command.message,
        details=command.details,
    )
    space.put(WAITPOINT, run.execution_id, command.waitpoint_id, value=waitpoint)
    pending = (*run.pending_waitpoints, (command.waitpoint_id, expires_at))
    space.put_execution(
        replace(run, pending_waitpoints=pending, last_mutation_at=space.now),
        "waitpoint_created",
        Cause(
            actor_of(run, command),
            details=(("waitpoint_id", command.waitpoint_id), ("waitpoint_key", command.waitpoint_key)),
        ),
        before=run.public_state,
    )
    return WaitpointCreated(OpenWaitpoint(command.waitpoint_id, command.waitpoint_key, token))


class WaitpointClosed(Struct, frozen=True):
    """The waitpoint is closed; `already` says that it was before."""

    already: bool


class CloseWaitpoint(ExecutionCommand[WaitpointClosed], frozen=True, kw_only=True):
    """Close a pending waitpoint that will not be used."""

    waitpoint_id: str
    reason: str = "proactive_close"

    def check(self) -> None:
        """Check id and reason."""
        super().check()
        check_uuid("waitpoint_id", self.waitpoint_id)
        checks.text("reason", self.reason, max_bytes=MAX_TEXT_BYTES)

    def reads(self) -> tuple[ReadRequest, ...]:
        """The execution and the waitpoint."""
        return (*super().reads(), (WAITPOINT, (self.execution_id, self.waitpoint_id)))


NEVER_USED: Final = "never_committed"
"""How a pending waitpoint is closed whose time is over."""


@step(CloseWaitpoint)
def close_waitpoint(space: Workspace, command: CloseWaitpoint) -> WaitpointClosed:
    """Close a pending waitpoint; one that belongs to a suspension ends with it."""
    run = space.execution(command.execution_id)
    waitpoint = space.get(WAITPOINT, run.execution_id, command.waitpoint_id)
    if waitpoint is None:
        raise refuse("waitpoint_not_found", field="waitpoint_id")
    if waitpoint.state == "closed":
        return WaitpointClosed(already=True)
    if waitpoint.state != "pending":
        problem = "it belongs to a suspension and closes with it"
        raise refuse("waitpoint_not_open", text=problem, field="waitpoint_id")
    drop_pending(space, run, (command.waitpoint_id,), command.reason, actor=command.actor)
    return WaitpointClosed(already=False)


def drop_pending(
    space: Workspace, run: Execution, waitpoint_ids: tuple[str, ...], reason: str, *, actor: str
) -> Execution:
    """Close pending waitpoints that will not be used, with one line of history for each."""
    close_waitpoints(space, run, waitpoint_ids, reason)
    for waitpoint_id in waitpoint_ids:
        rest = without_pending(run, waitpoint_id)
        run = space.put_execution(
            replace(run, pending_waitpoints=rest, last_mutation_at=space.now),
            "waitpoint_closed",
            Cause(actor, reason, (("waitpoint_id", waitpoint_id),)),
            before=run.public_state,
        )
    return run


def without_pending(run: Execution, waitpoint_id: str) -> tuple[tuple[str, int], ...]:
    """Return the pending waitpoints of an execution but one."""
    return tuple(entry for entry in run.pending_waitpoints if entry[0] != waitpoint_id)


def require_unused(space: Workspace, run: Execution, waitpoint_id: str) -> None:
    """Refuse a waitpoint id that an open waitpoint has."""
    known = space.get(WAITPOINT, run.execution_id, waitpoint_id)
    if known is not None and known.state != "closed":
        raise refuse("waitpoint_already_exists", field="waitpoint_id")


def forget_signals(space: Workspace, run: Execution, waitpoint_id: str) -> None:
    """Drop what a closed waitpoint of the same id has received: it says nothing to the new one."""
    known = space.get(WAITPOINT, run.execution_id, waitpoint_id)
    if known is not None and known.signal_count:
        for signal in space.children(SIGNAL, run.execution_id, waitpoint_id):
            space.put(SIGNAL, run.execution_id, waitpoint_id, signal.number, value=None)


class ReadToken(ExecutionQuestion[str | None], frozen=True, kw_only=True):
    """Return the raw token of an open waitpoint, to trusted code only."""

    waitpoint_id: str

    def check(self) -> None:
        """Check the id."""
        super().check()
        check_uuid("waitpoint_id", self.waitpoint_id)


@step(ReadToken)
def read_token(space: Workspace, question: ReadToken) -> str | None:
    """Return the token of a waitpoint that signals may still reach."""
    run = space.execution(question.execution_id)
    waitpoint = space.get(WAITPOINT, run.execution_id, question.waitpoint_id)
    return waitpoint.token if waitpoint is not None and is_open(waitpoint, space.now) else None


class WaitpointView(Struct, frozen=True):
    """An open waitpoint, without its token."""

    execution_id: str
    waitpoint_id: str
    waitpoint_key: str
    state: str
    required_signal_names: tuple[str, ...]
    created_at: int
    activated_at: int
    expires_at: int
    token_kid: str
    token_fingerprint: str
    reason_code: str
    message: str = ""
    """What the handler asks of whoever is to answer."""
    details: str = ""
    """More about it: a JSON object as text, or empty."""


class WaitpointPage(Page, frozen=True):
    """Open waitpoints in the order of their ids."""

    waitpoints: tuple[WaitpointView, ...]
    next: str


class ListWaitpoints(ExecutionQuestion[WaitpointPage], frozen=True, kw_only=True):
    """Return the open waitpoints of one execution."""

    after: str = ""
    limit: int = 100
    """Clamped to 1..1000."""

    def check(self) -> None:
        """Check the cursor."""
        super().check()
        if self.after:
            check_uuid("after", self.after)
        checks.integer("limit", self.limit, -MAX_INT, MAX_INT)


FEWEST: Final = 17
"""How many waitpoints are looked at in one go, however few are asked for."""


@step(ListWaitpoints)
def list_waitpoints(space: Workspace, question: ListWaitpoints) -> WaitpointPage:
    """Return the open waitpoints of one execution. Its records name them; closed ones are not looked at."""
    run = space.execution(question.execution_id)
    suspension = space.get(SUSPENSION, run.execution_id)
    named = {waitpoint_id for waitpoint_id, _ in run.pending_waitpoints}
    if suspension is not None and run.lifecycle_phase is Phase.SUSPENDED:
        named.update(waitpoints_of(suspension))
    ids = sorted(waitpoint_id for waitpoint_id in named if waitpoint_id > question.after)
    limit = min(max(question.limit, 1), PAGE_MAX)
    open_ones: list[Waitpoint] = []
    at_once = max(limit + 1, FEWEST)  # one more than was asked for tells that there are more
    for at in range(0, len(ids), at_once):
        keys = ((run.execution_id, waitpoint_id) for waitpoint_id in ids[at : at + at_once])
        found = space.several(WAITPOINT, keys)
        open_ones += [each for each in found if each is not None and is_open(each, space.now)]
        if len(open_ones) > limit:
            break
    shown = open_ones[:limit]
    return WaitpointPage(
        tuple(waitpoint_view(run.execution_id, waitpoint, suspension) for waitpoint in shown),
        shown[-1].waitpoint_id if len(shown) < len(open_ones) else "",
    )


def is_open(waitpoint: Waitpoint, now: int) -> bool:
    """Whether a token still opens it. The clock ends only pending ones; a suspension ends by its timer."""
    if not waitpoint.token:
        return False
    if waitpoint.state == "pending":
        return not waitpoint.expires_at or waitpoint.expires_at > now
    return waitpoint.state == "active"


def waitpoint_view(execution_id: str, waitpoint: Waitpoint, suspension: Suspension | None) -> WaitpointView:
    """Show a waitpoint without its token."""
    # The last suspension may be over while a waitpoint is pending for the next one.
    mine = suspension if suspension and suspension.suspension_id == waitpoint.suspension_id else None
    kid, digest = fingerprint(waitpoint.token)
    return WaitpointView(
        execution_id,
        waitpoint.waitpoint_id,
        waitpoint.waitpoint_key,
        waitpoint.state,
        required_signal_names(mine.condition) if mine else (),
        waitpoint.created_at,
        waitpoint.activated_at,
        waitpoint.expires_at,
        kid,
        digest,
        mine.reason_code if mine else "",
        waitpoint.message,
        waitpoint.details,
    )
