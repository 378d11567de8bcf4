"""The principal that a request acts as."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from flowfabric.wire.rights import GRANTS, Right, Role


class Principal(Struct, frozen=True):
    """Who asks: the name of a token, its role, and the one namespace that it may see (empty: all)."""

    name: str
    role: Role
    namespace: str = ""
    token_id: str = ""
    """Of a stored token, which can be deleted and may expire; empty for all others."""

    def may(self, right: Right) -> bool:
        """Return whether the role grants a right."""
        return right is Right.NOTHING or right in GRANTS[self.role]


ANYBODY: Final = Principal("anonymous", Role.ADMIN)
"""Whoever asks a server that has no token: it listens to this machine only."""
