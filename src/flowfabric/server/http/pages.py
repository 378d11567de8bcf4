"""Pages for people: plain HTML that needs nothing from elsewhere and runs nothing."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from typing import Any, Final

import msgspec

from flowfabric.model.operations.access import Signed
from flowfabric.model.times import moment
from flowfabric.server.access.links import Link
from flowfabric.server.http.call import Response
from flowfabric.wire.access import MAX_COMMENT_LENGTH, MAX_NAME_LENGTH

HTML: Final = "text/html; charset=utf-8"
_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:4rem auto;padding:0 1rem;color:#1c2024;"
    "background:#fff}h1{font-size:1.4rem}h2{font-size:1rem;margin:1.5rem 0 .3rem}"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.3rem 1rem}"
    "dt{color:#60646c}dd{margin:0;overflow-wrap:anywhere;white-space:pre-wrap;unicode-bidi:isolate}"
    ".message{unicode-bidi:isolate;font-size:1.1rem;white-space:pre-wrap;overflow-wrap:anywhere;"
    "border-left:.25rem solid #1a66d6;"
    "padding:.2rem 1rem;margin:1rem 0}label{display:block;margin:1rem 0}input,textarea{font:inherit;display:block;"
    "width:100%;box-sizing:border-box;padding:.4rem;border:1px solid #8b8d98;border-radius:.4rem;background:inherit;"
    "color:inherit}button{font:inherit;font-weight:600;padding:.6rem 1.4rem;margin:0 .6rem .6rem 0;border:0;"
    "border-radius:.4rem;background:#1a66d6;color:#fff;cursor:pointer}"
    "@media(prefers-color-scheme:dark){body{background:#111;color:#eee}dt{color:#aaa}a{color:#8ab4f8}}"
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


def page(title: str, body: str, status: int = 200) -> Response:
    """Answer with a page; the body is HTML that was escaped already."""
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><main><h1>{escape(title)}</h1>{body}</main></body></html>"
    )
    return Response(status=status, raw=text.encode(), content_type=HTML, headers=PAGE_HEADERS)


def question_page(link: Link, signed: Signed) -> Response:
    """Ask whoever opened a link: what is asked, by which work, and what can be answered."""
    message = f'<p class="message">{escape(signed.message)}</p>' if signed.message else ""
    about = _table(
        ("Work", signed.execution_kind),
        ("Asked", moment(signed.created_at, to_the_second=True)),
        ("Asked by", link.issued_by),
        ("Asked of", link.source_identity),
        ("Waiting for", signed.reason_code),
        ("Namespace", signed.namespace),
        ("Execution", link.execution_id),
        ("Valid until", moment(link.expires_at, to_the_second=True)),
    )
    return page("Your answer is needed", f"{message}{_details(signed.details)}{about}{_form(link)}")


def _form(link: Link) -> str:
    name = (
        ""
        if link.source_identity
        else f'<label>Your name<input name="name" maxlength="{MAX_NAME_LENGTH}" autocomplete="name"></label>'
    )
    comment = f'<textarea name="comment" rows="3" maxlength="{MAX_COMMENT_LENGTH}"></textarea>'
    buttons = "".join(
        f'<button type="submit" name="signal" value="{escape(each)}">{escape(each)}</button>'
        for each in link.signal_names
    )
    who = f"in the name of {escape(link.source_identity)}" if link.source_identity else "under your name"
    return (
        f'<form method="post">{name}<label>Comment (optional){comment}</label>{buttons}</form>'
        f"<p>Your answer is delivered to the work {who}. This link works once.</p>"
    )


def _details(text: str) -> str:
    if not text:
        return ""
    found: dict[str, Any] = msgspec.json.decode(text)
    return _table(*((name, _shown(value)) for name, value in found.items()))


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _table(*rows: tuple[str, str]) -> str:
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows if value)
    return f"<dl>{lines}</dl>"
