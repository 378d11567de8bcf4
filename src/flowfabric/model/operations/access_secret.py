"""Seed, rotate and list the keys that sign waitpoint tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from flowfabric.model import tokens
from flowfabric.model.command import Command, Question, ReadRequest
from flowfabric.model.machine.group import step
from flowfabric.model.machine.workspace import Workspace
from flowfabric.model.record_kinds import KEYRING
from flowfabric.model.redaction import hide, shown, shown_text
from flowfabric.model.tokens import (
    AlreadySeeded,
    KeyRing,
    KidList,
    Noop,
    Rotated,
    Seeded,
    derived_keys,
    list_kids,
)

KEYRING_REQUEST: Final[ReadRequest] = (KEYRING, ())


def keyring(space: Workspace) -> KeyRing:
    """Return the keys; before the first one is installed, an empty ring."""
    ring = space.get(KEYRING)
    return KeyRing() if ring is None else ring


class SeedSecret(Command[Seeded | AlreadySeeded], frozen=True, kw_only=True):
    """Install the first waitpoint secret."""

    kid: str
    secret_hex: str

    def reads(self) -> tuple[ReadRequest, ...]:
        """The keys."""
        return (KEYRING_REQUEST,)

    def __repr__(self) -> str:
        return shown_text(self, secret_hex=hide)

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:  # type: ignore[override]
        return shown(self, secret_hex=hide)


@step(SeedSecret)
def seed_secret(space: Workspace, command: SeedSecret) -> Seeded | AlreadySeeded:
    """Install the first key; a repeat changes nothing."""
    ring = keyring(space)
    changed, outcome = tokens.seed(ring, command.kid, command.secret_hex)
    _store(space, ring, changed)
    return outcome


class RotateSecret(Command[Rotated | Noop], frozen=True, kw_only=True):
    """Make a new waitpoint secret current; the old one verifies until its grace ends."""

    new_kid: str
    new_secret_hex: str
    grace_ms: int

    def reads(self) -> tuple[ReadRequest, ...]:
        """The keys."""
        return (KEYRING_REQUEST,)

    def __repr__(self) -> str:
        return shown_text(self, new_secret_hex=hide)

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:  # type: ignore[override]
        return shown(self, new_secret_hex=hide)


@step(RotateSecret)
def rotate_secret(space: Workspace, command: RotateSecret) -> Rotated | Noop:
    """Sign with a new key from now on."""
    ring = keyring(space)
    changed, outcome = tokens.rotate(
        ring, command.new_kid, command.new_secret_hex, command.grace_ms, space.now
    )
    _store(space, ring, changed)
    return outcome


def _store(space: Workspace, old: KeyRing, new: KeyRing) -> None:
    if new != old:
        space.put(KEYRING, value=new)


class ListKids(Question[KidList], frozen=True, kw_only=True):
    """Return the key ids that verify tokens now."""

    def reads(self) -> tuple[ReadRequest, ...]:
        """The keys."""
        return (KEYRING_REQUEST,)


@step(ListKids)
def list_key_ids(space: Workspace, _: ListKids) -> KidList:
    """Return the names of the keys that verify tokens now."""
    ring = space.get(KEYRING)
    return list_kids(ring or KeyRing(), space.now)


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

    def reads(self) -> tuple[ReadRequest, ...]:
        """The keys."""
        return (KEYRING_REQUEST,)


@step(ReadCursorKeys)
def read_cursor_keys(space: Workspace, _: ReadCursorKeys) -> CursorKeys:
    """Derive the keys that seal cursors."""
    return CursorKeys(derived_keys(keyring(space), "cursors", space.now))
