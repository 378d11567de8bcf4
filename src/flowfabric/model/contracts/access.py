"""Tokens of people and programs: who may ask a server for what. Only digests are stored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from flowfabric.model import checks
from flowfabric.model.contracts.base import Command, Need
from flowfabric.model.contracts.reads import ExecutionQuestion, Question
from flowfabric.model.errors import invalid
from flowfabric.model.ids import check_uuid
from flowfabric.model.limits import MAX_INT, MAX_TEXT_BYTES
from flowfabric.model.records import AccessToken
from flowfabric.model.redaction import hide, shown, shown_text

ALL_TOKENS: Final[Need] = ("token*", ())
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

    def needs(self) -> tuple[Need, ...]:
        """All tokens: their number is limited."""
        return (ALL_TOKENS,)

    def __repr__(self) -> str:
        return shown_text(self, digest=hide)

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:  # type: ignore[override]
        return shown(self, digest=hide)


class DeleteToken(Command[AccessToken], frozen=True, kw_only=True):
    """Let somebody in no longer; answers what the token was."""

    token_id: str

    def check(self) -> None:
        """Check the id; one that no token can have is simply not found later."""
        super().check()
        checks.text("token_id", self.token_id)

    def needs(self) -> tuple[Need, ...]:
        """The token."""
        return (("token", (self.token_id,)),)


class ListTokens(Question[tuple[AccessToken, ...]], frozen=True, kw_only=True):
    """Return every token, in the order of their creation."""

    def needs(self) -> tuple[Need, ...]:
        """All of them."""
        return (ALL_TOKENS,)


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

    def needs(self) -> tuple[Need, ...]:
        """The execution, the waitpoint, its suspension, and the keys."""
        return (
            *super().needs(),
            ("waitpoint", (self.execution_id, self.waitpoint_id)),
            ("suspension", (self.execution_id,)),
            ("keyring", ()),
        )


class CursorKeys(Struct, frozen=True):
    """The keys that seal the cursors of lists, the current one first. They are secrets: `repr` hides them."""

    keys: tuple[bytes, ...]

    def __repr__(self) -> str:
        return shown_text(self, keys=hide)

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:  # type: ignore[override]
        return shown(self, keys=hide)


class ReadCursorKeys(Question[CursorKeys], frozen=True, kw_only=True):
    """Return the keys that seal cursors, for trusted code only.

    They are derived from those that sign waitpoint tokens: every server over one store has the same, they outlive
    its restarts, and rotate with the others.
    """

    def needs(self) -> tuple[Need, ...]:
        """The keys."""
        return (("keyring", ()),)
