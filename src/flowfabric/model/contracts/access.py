"""Tokens of people and programs: who may ask a server for what. Only digests are stored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from flowfabric.model import checks
from flowfabric.model.contracts.base import Command, Need
from flowfabric.model.contracts.reads import Question
from flowfabric.model.errors import invalid
from flowfabric.model.ids import check_uuid
from flowfabric.model.limits import MAX_INT
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
