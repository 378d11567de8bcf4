"""Who may call what: the rights that routes require, and the roles that grant them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """The role of a token."""

    ADMIN = "admin"
    OPERATOR = "operator"
    WORKER = "worker"
    SUBMITTER = "submitter"
    READER = "reader"


ROLES: Final = ", ".join(Role)


class Right(StrEnum):
    """What a route requires of its caller."""

    NOTHING = "nothing"
    """Open to everybody: health and metrics, and links that carry their own signature."""
    READ = "read"
    SUBMIT = "submit"
    WORK = "work"
    """Claims, and the operations of a lease holder."""
    SIGNAL = "signal"
    """Deliveries that carry the token of a waitpoint."""
    OPERATE = "operate"
    ADMIN = "admin"
    """Secrets, tokens, and reads of credentials."""


GRANTS: Final[dict[Role, frozenset[Right]]] = {
    Role.ADMIN: frozenset(Right),
    Role.OPERATOR: frozenset({Right.READ, Right.SUBMIT, Right.WORK, Right.SIGNAL, Right.OPERATE}),
    Role.WORKER: frozenset({Right.READ, Right.SUBMIT, Right.WORK, Right.SIGNAL}),
    Role.SUBMITTER: frozenset({Right.READ, Right.SUBMIT, Right.SIGNAL}),
    Role.READER: frozenset({Right.READ}),
}


def who_may(right: Right) -> str:
    """List the roles that grant a right, as error messages show them."""
    return ", ".join(role for role in Role if right in GRANTS[role])
