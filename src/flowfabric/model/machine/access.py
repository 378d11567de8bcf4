"""Tokens of people and programs: created, listed, deleted."""

from __future__ import annotations

from flowfabric.model.contracts.access import (
    CreateToken,
    CursorKeys,
    DeleteToken,
    ListTokens,
    ReadCursorKeys,
    Signed,
    SignLink,
)
from flowfabric.model.errors import refuse
from flowfabric.model.limits import MAX_TOKENS
from flowfabric.model.machine.inbox import is_open
from flowfabric.model.machine.lease import waitpoints_of
from flowfabric.model.machine.secrets import keyring
from flowfabric.model.machine.workspace import Workspace, step
from flowfabric.model.records import VERSION, AccessToken, Execution, Suspension, Waitpoint
from flowfabric.model.state import AttemptState, Ownership, Phase
from flowfabric.model.tokens import derived_keys, sign


@step(CreateToken)
def create_token(space: Workspace, command: CreateToken) -> AccessToken:
    """Store a token; a repeat with the same id and digest answers as the first time."""
    tokens: list[AccessToken] = space.children("token")
    known = next((token for token in tokens if token.token_id == command.token_id), None)
    if known is not None:
        if known.digest != command.digest:
            raise refuse("invalid_input", text="this id belongs to another token", field="token_id")
        return known
    if len(tokens) >= MAX_TOKENS:
        raise refuse("invalid_input", text=f"there are {MAX_TOKENS} tokens; delete one first", field="name")
    token = AccessToken(
        VERSION, command.token_id, command.name, command.role, command.digest, command.namespace,
        command.expires_at, space.now, command.actor,
    )  # fmt: skip
    space.put("token", command.token_id, value=token)
    return token


@step(DeleteToken)
def delete_token(space: Workspace, command: DeleteToken) -> AccessToken:
    """Forget a token."""
    token: AccessToken | None = space.get("token", command.token_id)
    if token is None:
        raise refuse("not_found", text="there is no such token", field="token_id")
    space.put("token", command.token_id, value=None)
    return token


@step(ListTokens)
def list_tokens(space: Workspace, _: ListTokens) -> tuple[AccessToken, ...]:
    """Return every token, the oldest first."""
    tokens: list[AccessToken] = space.children("token")
    return tuple(sorted(tokens, key=lambda token: (token.created_at, token.token_id)))


@step(SignLink)
def sign_link(space: Workspace, question: SignLink) -> Signed:
    """Sign a text about a waitpoint, with a key of its own for this purpose."""
    run = space.execution(question.execution_id)
    waitpoint: Waitpoint | None = space.get("waitpoint", run.execution_id, question.waitpoint_id)
    if waitpoint is None:
        raise refuse("waitpoint_not_found", field="waitpoint_id")
    message = f"link|{run.execution_id}|{waitpoint.waitpoint_id}|{waitpoint.created_at}|{question.text}"
    kid, signature = sign(keyring(space), question.kid, message, space.now)
    state = waitpoint.state if is_open(waitpoint, space.now) else "closed"
    suspension: Suspension | None = space.get("suspension", run.execution_id)
    current = suspension is not None and suspension.suspension_id == waitpoint.suspension_id
    reason = suspension.reason_code if suspension is not None and current else ""
    outlived = waitpoint.state == "pending" and not _may_be_used(run, waitpoint, space.now)
    return Signed(
        kid, signature, state, waitpoint.created_at, reason, waitpoint.message, waitpoint.details,
        run.execution_kind, run.namespace, outlived,
        _successor(space, run, waitpoint, suspension) if outlived else "",
    )  # fmt: skip


def _may_be_used(run: Execution, waitpoint: Waitpoint, now: int) -> bool:
    """Whether the attempt that made a waitpoint ahead can still wait on it: it runs, waits, or will be resumed."""
    if waitpoint.attempt_index != run.attempt.index:
        return False
    if run.lifecycle_phase is Phase.ACTIVE:
        return run.ownership_state is Ownership.LEASED and run.lease_expires_at > now
    return run.attempt_state not in {AttemptState.PENDING_RETRY, AttemptState.PENDING_REPLAY}


def _successor(space: Workspace, run: Execution, waitpoint: Waitpoint, suspension: Suspension | None) -> str:
    """Find the open waitpoint of the current attempt that has the same key."""
    named = [waitpoint_id for waitpoint_id, _ in run.pending_waitpoints]
    if suspension is not None and run.lifecycle_phase is Phase.SUSPENDED:
        named += waitpoints_of(suspension)
    keys = [(run.execution_id, each) for each in named if each != waitpoint.waitpoint_id]
    found: list[Waitpoint | None] = space.several("waitpoint", keys)
    return next(
        (
            each.waitpoint_id for each in found
            if each is not None and each.waitpoint_key == waitpoint.waitpoint_key
            and each.attempt_index == run.attempt.index and is_open(each, space.now)
        ),
        "",
    )  # fmt: skip


@step(ReadCursorKeys)
def read_cursor_keys(space: Workspace, _: ReadCursorKeys) -> CursorKeys:
    """Derive the keys that seal cursors."""
    return CursorKeys(derived_keys(keyring(space), "cursors", space.now))
