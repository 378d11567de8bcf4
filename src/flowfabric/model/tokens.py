"""Waitpoint tokens: bearer credentials `<kid>:<digest>` that let an outsider signal one waitpoint.

The digest is an HMAC-SHA256 over execution, waitpoint, key and creation time, so a token opens exactly
one waitpoint of one execution. Keys rotate: an older key goes on verifying until its grace ends.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Final

import msgspec

from flowfabric.model.errors import invalid, refuse
from flowfabric.model.limits import MAX_INT, MAX_TEXT_BYTES
from flowfabric.model.records import Record
from flowfabric.model.redaction import kid_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

DIGEST_LENGTH: Final = 64
SEED_SECRET_LENGTH: Final = 64

_HEX: Final = re.compile("(?:[0-9a-fA-F]{2})+")


class Key(msgspec.Struct, array_like=True, frozen=True):
    """One signing key; `expires_at` is 0 for the current one and the end of its grace for the others."""

    kid: str
    secret_hex: str
    expires_at: int = 0

    def __repr__(self) -> str:
        return f"Key(kid={self.kid!r}, secret_hex=<REDACTED>, expires_at={self.expires_at})"

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:  # type: ignore[override]
        # Tracebacks and consoles built on rich ask for this one, and would otherwise show every field.
        yield "kid", self.kid
        yield "secret_hex", "<REDACTED>"
        yield "expires_at", self.expires_at


class KeyRing(Record, array_like=True, frozen=True):
    """Every installed key; the `previous_` fields are for audit and decide nothing."""

    version: int = 1
    current_kid: str = ""
    keys: tuple[Key, ...] = ()
    previous_kid: str = ""
    previous_expires_at: int = 0

    def find(self, kid: str) -> Key | None:
        """Return the installed key of this name; a key without a secret is not installed."""
        return next((key for key in self.keys if key.kid == kid and key.secret_hex), None)


class Seeded(msgspec.Struct, frozen=True, tag=True):
    """The key was installed."""

    kid: str


class AlreadySeeded(msgspec.Struct, frozen=True, tag=True):
    """A key of this name was current already and stays as it is."""

    kid: str
    same_secret: bool


class Rotated(msgspec.Struct, frozen=True, tag=True):
    """A new key signs from now on; `gc_count` expired ones were removed."""

    previous_kid: str | None
    new_kid: str
    gc_count: int


class Noop(msgspec.Struct, frozen=True, tag=True):
    """The key was current already."""

    kid: str


class KidList(msgspec.Struct, frozen=True):
    """Names of the keys that verify now: the current one, and the others with the end of their grace."""

    current_kid: str | None
    verifying: tuple[tuple[str, int], ...] = ()


def seed(ring: KeyRing, kid: str, secret_hex: str) -> tuple[KeyRing, Seeded | AlreadySeeded]:
    """Install the first key, or say that it is there; a repeat changes nothing."""
    _check_key("kid", kid, "secret_hex", secret_hex)
    if len(secret_hex) != SEED_SECRET_LENGTH:
        problem = f"must be exactly {SEED_SECRET_LENGTH} hex digits"
        raise refuse("invalid_secret_hex", text=problem, field="secret_hex")
    if ring.current_kid not in {"", kid}:
        raise invalid("kid", "another key is current; rotate to this one instead")
    known = ring.find(kid)
    if known is not None and kid == ring.current_kid:
        return ring, AlreadySeeded(kid, _same(known, secret_hex))
    if known is not None and not _same(known, secret_hex):
        raise refuse("rotation_conflict", kid, field="kid")
    return _with_current(ring, kid, secret_hex), Seeded(kid)


def rotate(
    ring: KeyRing, new_kid: str, new_secret_hex: str, grace_ms: int, now: int
) -> tuple[KeyRing, Rotated | Noop]:
    """Sign with a new key from now on; what the old one signed stays valid for `grace_ms`."""
    _check_key("new_kid", new_kid, "new_secret_hex", new_secret_hex)
    if type(grace_ms) is not int or not 0 <= grace_ms <= MAX_INT:
        raise refuse("invalid_grace_ms", field="grace_ms")
    known = ring.find(new_kid)
    # Judged before the clean-up: whether a name may be reused must not depend on when keys were last removed.
    if known is not None and not _same(known, new_secret_hex):
        raise refuse("rotation_conflict", new_kid, field="new_kid")
    if new_kid == ring.current_kid:
        return (ring if known else _with_current(ring, new_kid, new_secret_hex)), Noop(new_kid)
    staying = {ring.current_kid, new_kid}
    kept = tuple(key for key in ring.keys if key.kid in staying or _in_grace(key, now))
    expires_at = min(now + grace_ms, MAX_INT)
    demoted = tuple(
        msgspec.structs.replace(key, expires_at=expires_at) if key.kid == ring.current_kid else key
        for key in kept
    )
    before = msgspec.structs.replace(
        ring,
        keys=demoted,
        previous_kid=ring.current_kid,
        previous_expires_at=expires_at if ring.current_kid else 0,
    )
    outcome = Rotated(ring.current_kid or None, new_kid, len(ring.keys) - len(kept))
    return _with_current(before, new_kid, new_secret_hex), outcome


def list_kids(ring: KeyRing, now: int) -> KidList:
    """Name the keys that verify now, without their secrets."""
    if not ring.current_kid:
        return KidList(None)
    older = (key for key in ring.keys if key.kid != ring.current_kid and _in_grace(key, now))
    return KidList(ring.current_kid, tuple(sorted((key.kid, key.expires_at) for key in older)))


def mint(
    ring: KeyRing | None, execution_id: str, waitpoint_id: str, waitpoint_key: str, created_at: int
) -> str:
    """Sign one waitpoint with the current key."""
    if ring is None:
        raise refuse("invalid_keys_missing_hmac")
    key = ring.find(ring.current_kid) if ring.current_kid else None
    if key is None:
        raise refuse("hmac_secret_not_initialized")
    return f"{key.kid}:{_digest(key, execution_id, waitpoint_id, waitpoint_key, created_at)}"


def verify(
    ring: KeyRing | None,
    token: str,
    execution_id: str,
    waitpoint_id: str,
    waitpoint_key: str,
    created_at: int,
    now: int,
) -> None:
    """Accept the token of exactly this waitpoint, or refuse."""
    if ring is None:
        raise refuse("invalid_keys_missing_hmac")
    if not token:
        raise refuse("missing_token")
    kid, _, digest = token.partition(":")
    if not kid or len(digest) != DIGEST_LENGTH:
        raise refuse("invalid_token")
    key = _verifying_key(ring, kid, now)
    expected = _digest(key, execution_id, waitpoint_id, waitpoint_key, created_at)
    # As bytes: the comparison refuses to look at text outside ASCII, and the caller chooses the text.
    if not hmac.compare_digest(expected.encode(), digest.encode("utf-8", "surrogatepass")):
        raise refuse("invalid_token")


def sign(ring: KeyRing, kid: str, message: str, now: int) -> tuple[str, str]:
    """Sign a message that is no token, with the key of a name or the current one; returns name and signature.

    The key is a derived one, so that what is signed here can never pass for a token.
    """
    key = _verifying_key(ring, kid or ring.current_kid, now)
    if not _HEX.fullmatch(key.secret_hex):
        raise refuse("invalid_secret")
    derived = hmac.new(bytes.fromhex(key.secret_hex), b"flowfabric:signed-message", hashlib.sha256).digest()
    return key.kid, hmac.new(derived, message.encode(), hashlib.sha256).hexdigest()


def derived_keys(ring: KeyRing, purpose: str, now: int) -> tuple[bytes, ...]:
    """Derive a key for a purpose from each key that verifies now, the current one first."""
    current = _verifying_key(ring, ring.current_kid, now)
    others = [key for key in ring.keys if key.kid != current.kid and _in_grace(key, now)]
    secrets = [bytes.fromhex(key.secret_hex) for key in (current, *others) if _HEX.fullmatch(key.secret_hex)]
    if not secrets:
        raise refuse("invalid_secret")
    return tuple(
        hmac.new(secret, f"flowfabric:{purpose}".encode(), hashlib.sha256).digest() for secret in secrets
    )


def fingerprint(token: str) -> tuple[str, str]:
    """Return key name and first 16 digits of the digest: enough to recognise a token, not to use it."""
    kid, _, digest = token.partition(":")
    return (kid, digest[:16]) if kid and len(digest) == DIGEST_LENGTH else ("", "")


def _verifying_key(ring: KeyRing, kid: str, now: int) -> Key:
    if not ring.current_kid:
        raise refuse("hmac_secret_not_initialized")
    key = ring.find(kid)
    if kid == ring.current_kid:
        if key is None:
            raise refuse("hmac_secret_not_initialized")
        return key
    if key is None:
        raise refuse("invalid_token")
    if not _in_grace(key, now):
        raise refuse("token_expired")
    return key


def _digest(key: Key, execution_id: str, waitpoint_id: str, waitpoint_key: str, created_at: int) -> str:
    if not _HEX.fullmatch(key.secret_hex):
        raise refuse("invalid_secret")
    message = f"{execution_id}|{waitpoint_id}|{waitpoint_key}|{created_at}"
    return hmac.new(bytes.fromhex(key.secret_hex), message.encode(), hashlib.sha256).hexdigest()


def _in_grace(key: Key, now: int) -> bool:
    return bool(key.secret_hex) and key.expires_at > 0 and key.expires_at >= now


def _same(key: Key, secret_hex: str) -> bool:
    # Secrets are stored in lower case, so upper-case digits name the same bytes.
    return hmac.compare_digest(key.secret_hex.lower().encode(), secret_hex.lower().encode())


def _with_current(ring: KeyRing, kid: str, secret_hex: str) -> KeyRing:
    others = tuple(key for key in ring.keys if key.kid != kid)
    keys = (*others, Key(kid, secret_hex.lower()))
    return msgspec.structs.replace(ring, current_kid=kid, keys=keys)


def _check_key(kid_field: str, kid: str, secret_field: str, secret_hex: str) -> None:
    if kid_problem(kid):
        raise refuse("invalid_kid", field=kid_field)
    if len(secret_hex) > MAX_TEXT_BYTES or not _HEX.fullmatch(secret_hex):
        raise refuse("invalid_secret_hex", field=secret_field)
