"""The keys that sign waitpoint tokens."""

from __future__ import annotations

from flowfabric.model import tokens
from flowfabric.model.contracts.upkeep import RotateSecret, SeedSecret
from flowfabric.model.machine.workspace import Workspace, step
from flowfabric.model.tokens import AlreadySeeded, KeyRing, Noop, Rotated, Seeded


def keyring(space: Workspace) -> KeyRing:
    """Return the keys; before the first one is installed, an empty ring."""
    ring: KeyRing | None = space.get("keyring")
    return KeyRing() if ring is None else ring


@step(SeedSecret)
def seed_secret(space: Workspace, command: SeedSecret) -> Seeded | AlreadySeeded:
    """Install the first key; a repeat changes nothing."""
    ring = keyring(space)
    changed, outcome = tokens.seed(ring, command.kid, command.secret_hex)
    _store(space, ring, changed)
    return outcome


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
        space.put("keyring", value=new)
