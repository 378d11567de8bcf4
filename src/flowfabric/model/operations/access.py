"""Create, list and delete access tokens, and sign links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from flowfabric.model import checks
from flowfabric.model.command import Command, ExecutionQuestion, Question, ReadRequest
from flowfabric.model.errors import invalid, refuse
from flowfabric.model.ids import check_uuid
from flowfabric.model.limits import MAX_INT, MAX_TEXT_BYTES, MAX_TOKENS
from flowfabric.model.machine.closing import waitpoints_of
from flowfabric.model.machine.group import step
from flowfabric.model.machine.workspace import Workspace
from flowfabric.model.operations.access_secret import keyring
from flowfabric.model.operations.suspend_waitpoint import is_open
from flowfabric.model.record_kinds import KEYRING, SUSPENSION, TOKEN, WAITPOINT
from flowfabric.model.records import VERSION, AccessToken, Execution, Suspension, Waitpoint
from flowfabric.model.redaction import hide, shown, shown_text
from flowfabric.model.state import AttemptState, Ownership, Phase
from flowfabric.model.tokens import sign

ALL_TOKENS: Final[ReadRequest] = (TOKEN.children, ())
_DIGEST: Final = re.compile("[0-9a-f]{64}")


class CreateToken(Command[AccessToken], frozen=True, kw_only=True):
    """Let somebody in. The digest is the SHA-256 of the token, which nobody stores."""

    token_id: str
    name: str
    role: str
    digest: str
    namespace: str = ""
    """Empty: all of them."""
    expires_at: int = 0
    """0: never."""

    def check(self) -> None:
        """Check every field."""
        super().check()
        check_uuid("token_id", self.token_id)
        checks.name("name", self.name)
        checks.name("role", self.role)
        checks.name("namespace", self.namespace, empty=True)
        checks.integer("expires_at", self.expires_at, 0, MAX_INT)
        if not _DIGEST.fullmatch(checks.text("digest", self.digest)):
            raise invalid("digest", "must be 64 lower-case hex digits")

    def reads(self) -> tuple[ReadRequest, ...]:
        """All tokens: their number is limited."""
        return (ALL_TOKENS,)

    def __repr__(self) -> str:
        return shown_text(self, digest=hide)

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:  # type: ignore[override]
        return shown(self, digest=hide)


@step(CreateToken)
def create_token(space: Workspace, command: CreateToken) -> AccessToken:
    """Store a token; a repeat with the same id and digest answers as the first time."""
    tokens = space.children(TOKEN)
    known = next((token for token in tokens if token.token_id == command.token_id), None)
    if known is not None:
        if known.digest != command.digest:
            raise refuse("invalid_input", text="this id belongs to another token", field="token_id")
        return known
    if len(tokens) >= MAX_TOKENS:
        raise refuse("invalid_input", text=f"there are {MAX_TOKENS} tokens; delete one first", field="name")
    token = AccessToken(
        VERSION,
        command.token_id,
        command.name,
        command.role,
        command.digest,
        command.namespace,
        command.expires_at,
        space.now,
        command.actor,
    )
    space.put(TOKEN, command.token_id, value=token)
    return token


class DeleteToken(Command[AccessToken], frozen=True, kw_only=True):
    """Let somebody in no longer; answers what the token was."""

    token_id: str

    def check(self) -> None:
        """Check the id; one that no token can have is simply not found later."""
        super().check()
        checks.text("token_id", self.token_id)

    def reads(self) -> tuple[ReadRequest, ...]:
        """The token."""
        return ((TOKEN, (self.token_id,)),)


@step(DeleteToken)
def delete_token(space: Workspace, command: DeleteToken) -> AccessToken:
    """Forget a token."""
    token = space.get(TOKEN, command.token_id)
    if token is None:
        raise refuse("not_found", text="there is no such token", field="token_id")
    space.put(TOKEN, command.token_id, value=None)
    return token


class ListTokens(Question[tuple[AccessToken, ...]], frozen=True, kw_only=True):
    """Return every token, in the order of their creation."""

    def reads(self) -> tuple[ReadRequest, ...]:
        """All of them."""
        return (ALL_TOKENS,)


@step(ListTokens)
def list_tokens(space: Workspace, _: ListTokens) -> tuple[AccessToken, ...]:
    """Return every token, the oldest first."""
    tokens = space.children(TOKEN)
    return tuple(sorted(tokens, key=lambda token: (token.created_at, token.token_id)))


class LinkRequest(Struct, frozen=True, kw_only=True):
    """A link to be made: a page that lets its visitor send one of some signals to a waitpoint, once."""

    execution_id: str
    waitpoint_id: str
    signal_names: tuple[str, ...]
    expires_in_ms: int = 0
    expires_at: int = 0
    """In place of `expires_in_ms`."""
    source_identity: str = ""
    """Who is asked; empty: the visitor says who they are."""
    link_id: str = ""
    """A UUID; with the same id and the same `expires_at` the same link is made again."""


class ApprovalLink(Struct, frozen=True):
    """A link that was made. Whoever has it may use it, so `repr` hides it."""

    url: str
    expires_at: int

    def __repr__(self) -> str:
        return shown_text(self, url=hide)

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:  # type: ignore[override]
        return shown(self, url=hide)


class Signed(Struct, frozen=True):
    """A signature for a waitpoint, and how that is now. The signature is a secret: `repr` hides it."""

    kid: str
    signature: str
    state: str
    created_at: int
    reason_code: str
    message: str = ""
    details: str = ""
    execution_kind: str = ""
    namespace: str = ""
    outlived: bool = False
    """Whether it was made ahead by an attempt that has ended without using it."""
    successor: str = ""
    """Then the open waitpoint of the same key that took its place, if there is one."""

    def __repr__(self) -> str:
        return shown_text(self, signature=hide)

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:  # type: ignore[override]
        return shown(self, signature=hide)


class SignLink(ExecutionQuestion[Signed], frozen=True, kw_only=True):
    """Sign a text about a waitpoint, for trusted code only: to make a link, or to compare one with.

    The key is derived from those that sign waitpoint tokens, so it rotates with them and has their grace.
    """

    waitpoint_id: str
    text: str
    kid: str = ""
    """Empty: the current key."""

    def check(self) -> None:
        """Check id and text."""
        super().check()
        check_uuid("waitpoint_id", self.waitpoint_id)
        checks.text("text", self.text, max_bytes=2 * MAX_TEXT_BYTES)
        checks.text("kid", self.kid, empty=True)

    def reads(self) -> tuple[ReadRequest, ...]:
        """The execution, the waitpoint, its suspension, and the keys."""
        return (
            *super().reads(),
            (WAITPOINT, (self.execution_id, self.waitpoint_id)),
            (SUSPENSION, (self.execution_id,)),
            (KEYRING, ()),
        )


@step(SignLink)
def sign_link(space: Workspace, question: SignLink) -> Signed:
    """Sign a text about a waitpoint, with a key of its own for this purpose."""
    run = space.execution(question.execution_id)
    waitpoint = space.get(WAITPOINT, run.execution_id, question.waitpoint_id)
    if waitpoint is None:
        raise refuse("waitpoint_not_found", field="waitpoint_id")
    message = f"link|{run.execution_id}|{waitpoint.waitpoint_id}|{waitpoint.created_at}|{question.text}"
    kid, signature = sign(keyring(space), question.kid, message, space.now)
    state = waitpoint.state if is_open(waitpoint, space.now) else "closed"
    suspension = space.get(SUSPENSION, run.execution_id)
    current = suspension is not None and suspension.suspension_id == waitpoint.suspension_id
    reason = suspension.reason_code if suspension is not None and current else ""
    outlived = waitpoint.state == "pending" and not _may_be_used(run, waitpoint, space.now)
    return Signed(
        kid,
        signature,
        state,
        waitpoint.created_at,
        reason,
        waitpoint.message,
        waitpoint.details,
        run.execution_kind,
        run.namespace,
        outlived,
        _successor(space, run, waitpoint, suspension) if outlived else "",
    )


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
    found = space.several(WAITPOINT, keys)
    return next(
        (
            each.waitpoint_id
            for each in found
            if each is not None
            and each.waitpoint_key == waitpoint.waitpoint_key
            and each.attempt_index == run.attempt.index
            and is_open(each, space.now)
        ),
        "",
    )
