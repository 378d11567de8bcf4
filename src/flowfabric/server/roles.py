"""Who may do what: roles, and the principal that a request acts as."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct


class Role(StrEnum):
    """What a token opens."""

    ADMIN = "admin"
    OPERATOR = "operator"
    WORKER = "worker"
    SUBMITTER = "submitter"
    READER = "reader"


ROLES: Final = ", ".join(Role)


class Need(StrEnum):
    """What a route asks for."""

    NOTHING = "nothing"
    """Open to everybody: health and metrics, and links that carry their own signature."""
    READ = "read"
    SUBMIT = "submit"
    WORK = "work"
    """Claims, and the verbs of a lease holder."""
    SIGNAL = "signal"
    """Deliveries that carry a waitpoint's token of their own."""
    OPERATE = "operate"
    ADMIN = "admin"
    """Secrets, tokens, and reads of credentials."""


OPENS: Final[dict[Role, frozenset[Need]]] = {
    Role.ADMIN: frozenset(Need),
    Role.OPERATOR: frozenset({Need.READ, Need.SUBMIT, Need.WORK, Need.SIGNAL, Need.OPERATE}),
    Role.WORKER: frozenset({Need.READ, Need.SUBMIT, Need.WORK, Need.SIGNAL}),
    Role.SUBMITTER: frozenset({Need.READ, Need.SUBMIT, Need.SIGNAL}),
    Role.READER: frozenset({Need.READ}),
}


def who_may(need: Need) -> str:
    """Name the roles that open a route, as messages list them."""
    return ", ".join(role for role in Role if need in OPENS[role])


class Principal(Struct, frozen=True):
    """Who asks: the name of a token, its role, and the one namespace that it may see (empty: all)."""

    name: str
    role: Role
    namespace: str = ""
    token_id: str = ""
    """Of a stored token, which can be deleted and may expire; empty for all others."""

    def may(self, need: Need) -> bool:
        """Whether the role opens a route."""
        return need is Need.NOTHING or need in OPENS[self.role]


ANYBODY: Final = Principal("anonymous", Role.ADMIN)
"""Whoever asks a server that has no token: it listens to this machine only."""
