"""What the interface looks like: for programs, and for people.

Both are open to everybody: they say nothing that the package itself does not say.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from flowfabric.server.call import Answer, Call, encode
from flowfabric.server.roles import Need
from flowfabric.server.routing import endpoint

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = (("content-security-policy", _POLICY), ("x-content-type-options", "nosniff"))


@cache
def _document() -> bytes:
    from flowfabric.server.openapi import document  # noqa: PLC0415 - it loads every route, this one too

    return encode(document())


@cache
def _page() -> bytes:
    return files("flowfabric.server").joinpath("assets/docs.html").read_bytes()


@endpoint("GET", "/openapi.json", Need.NOTHING, answers=((200, "An OpenAPI 3.1 document."),))
async def openapi(_: Call) -> Answer:
    """Describe every route for programs."""
    return Answer(raw=_document())


@endpoint("GET", "/docs", Need.NOTHING, answers=((200, "A page that needs nothing from elsewhere."),))
async def docs(_: Call) -> Answer:
    """Describe every route for people."""
    return Answer(raw=_page(), content_type="text/html; charset=utf-8", headers=PAGE_HEADERS)
