"""Links that let their holder send one signal: what they carry, and the pages that they show.

A link is `<what it says>.<signature>`, both in base64url. It says everything that its use needs; the signature is made
in the store, by a key that is derived from the waitpoint secrets, over all of it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from datetime import UTC, datetime
from html import escape
from typing import Final

import msgspec

from flowfabric.model.contracts.access import Signed, SignLink
from flowfabric.model.errors import FlowFabricError
from flowfabric.storage.base import Upkeep

MAX_LENGTH: Final = 6_000
UNSIGNED: Final = frozenset({"invalid_token", "waitpoint_not_found", "execution_not_found", "invalid_input"})
"""Refusals that tell nothing but that the link was not made here."""
_LAST_MS: Final = 253_402_300_799_000
"""The end of the year 9999, the last that a calendar holds: older links may name a later one."""
CLOSED: Final = "closed"
_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:4rem auto;padding:0 1rem;color:#1c2024;"
    "background:#fff}h1{font-size:1.4rem}dl{display:grid;grid-template-columns:max-content 1fr;gap:.3rem 1rem}"
    "dt{color:#60646c}dd{margin:0;overflow-wrap:anywhere}button{font:inherit;font-weight:600;padding:.6rem 1.4rem;"
    "border:0;border-radius:.4rem;background:#1a66d6;color:#fff;cursor:pointer}"
    "@media(prefers-color-scheme:dark){body{background:#111;color:#eee}dt{color:#aaa}}"
)
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
PAGE_HEADERS: Final = (
    ("content-security-policy", _POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("x-robots-tag", "noindex"),
)


class Link(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a link says."""

    kid: str
    execution_id: str
    waitpoint_id: str
    signal_name: str
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


def question_page(link: Link, kind: str, namespace: str, reason: str) -> bytes:
    """Write the page that asks."""
    who = link.source_identity or "whoever holds this link"
    until = datetime.fromtimestamp(min(link.expires_at, _LAST_MS) / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    rows = (
        ("Asked by", link.issued_by), ("Asked of", who), ("Work", kind), ("Namespace", namespace),
        ("Execution", link.execution_id), ("Waiting for", reason), ("Signal", link.signal_name),
        ("Valid until", until),
    )  # fmt: skip
    table = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows if value)
    text = (
        f"<p>Sending delivers the signal <strong>{escape(link.signal_name)}</strong> to this work in the name of "
        f"{escape(who)}. The work goes on when this is what it waits for. The link works once.</p>"
    )
    form = f'<form method="post"><button type="submit">Send {escape(link.signal_name)}</button></form>'
    return page("An execution waits for your answer", f"<dl>{table}</dl>{text}{form}")


def page(title: str, body: str) -> bytes:
    """Write a page that needs nothing from elsewhere; the body is HTML that was escaped already."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><main><h1>{escape(title)}</h1>{body}</main></body></html>"
    ).encode()
