"""Links that let their holder send one of some signals, once: what they carry, and how they are sealed.

A link is `<what it says>.<signature>`, both in base64url. It says everything that its use needs; the signature is made
in the store, by a key that is derived from the waitpoint secrets, over all of it.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from typing import Final

import msgspec

from flowfabric.model.errors import FlowFabricError
from flowfabric.model.operations.access import Signed, SignLink
from flowfabric.storage.base import Upkeep

MAX_LENGTH: Final = 6_000
UNSIGNED: Final = frozenset({"invalid_token", "waitpoint_not_found", "execution_not_found", "invalid_input"})
"""Refusals that tell nothing but that the link was not made here."""
CLOSED: Final = "closed"


class Link(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a link says."""

    kid: str
    execution_id: str
    waitpoint_id: str
    signal_names: tuple[str, ...]
    source_identity: str
    issued_by: str
    expires_at: int
    nonce: str
    """Tells two links with the same words apart: each acts once."""


class Tampered(Exception):
    """The text is no link of ours."""


class Outdated(Exception):
    """The key that signed the link is out of its grace."""


async def seal(store: Upkeep, link: Link) -> str:
    """Sign a link with the current key, which is put into it."""
    question = SignLink(execution_id=link.execution_id, waitpoint_id=link.waitpoint_id, text="-")
    signed = await store.read(question)
    text = _encode(msgspec.json.encode(msgspec.structs.replace(link, kid=signed.kid)))
    signed = await store.read(msgspec.structs.replace(question, text=text, kid=signed.kid))
    return f"{text}.{_encode(bytes.fromhex(signed.signature))}"


async def open_link(store: Upkeep, sealed: str) -> tuple[Link, Signed]:
    """Read a link and how its waitpoint is now; refuse one that was not signed here."""
    text, _, signature = sealed.partition(".")
    try:
        given = _decode(signature)
        link = msgspec.json.decode(_decode(text), type=Link)
        signed = await store.read(
            SignLink(
                execution_id=link.execution_id, waitpoint_id=link.waitpoint_id, text=text, kid=link.kid or "-"
            )
        )
    except (ValueError, msgspec.DecodeError) as error:
        raise Tampered from error
    except FlowFabricError as error:
        if error.code == "token_expired":
            raise Outdated from error
        if error.code in UNSIGNED:
            raise Tampered from error
        raise
    if not hmac.compare_digest(given, bytes.fromhex(signed.signature)):
        raise Tampered
    return link, signed


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    if not text or len(text) > MAX_LENGTH or "=" in text:
        raise ValueError("not a link")
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError("not base64") from error
    # One text for each value: the last character has bits to spare, which would make copies that differ.
    if _encode(data) != text:
        raise ValueError("not canonical")
    return data
