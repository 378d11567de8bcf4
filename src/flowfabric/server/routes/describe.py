"""What the interface looks like: for programs, and for people.

Both are open to everybody: they say nothing that the package itself does not say.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from flowfabric.server.call import Answer, Call, encode
from flowfabric.server.pages import page
from flowfabric.server.roles import Need
from flowfabric.server.routing import endpoint

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_WHERE_TO_GO = (
    "<p>This is a FlowFabric server: durable execution over HTTP.</p><ul>"
    '<li><a href="docs">Every route</a>, with examples</li>'
    '<li><a href="openapi.json">The same for programs</a>, as OpenAPI 3.1</li>'
    '<li><a href="readyz">Whether it takes work</a></li>'
    '<li><a href="metrics">Metrics</a> for Prometheus</li></ul>'
    "<p>From a terminal: <code>ff ps --store URL</code>, where URL is the address of this page.</p>"
)
PAGE_HEADERS = (("content-security-policy", _POLICY), ("x-content-type-options", "nosniff"))


@cache
def _document() -> bytes:
    from flowfabric.server.openapi import document  # noqa: PLC0415 - it loads every route, this one too

    return encode(document())


@cache
def _page() -> bytes:
    return files("flowfabric.server").joinpath("assets/docs.html").read_bytes()


@endpoint("GET", "/", Need.NOTHING, answers=((200, "A small page with links."),))
async def root(_: Call) -> Answer:
    """Show where to go."""
    return page("FlowFabric", _WHERE_TO_GO)


@endpoint("GET", "/openapi.json", Need.NOTHING, answers=((200, "An OpenAPI 3.1 document."),))
async def openapi(_: Call) -> Answer:
    """Describe every route for programs."""
    return Answer(raw=_document())


@endpoint("GET", "/docs", Need.NOTHING, answers=((200, "A page that needs nothing from elsewhere."),))
async def docs(_: Call) -> Answer:
    """Describe every route for people."""
    return Answer(raw=_page(), content_type="text/html; charset=utf-8", headers=PAGE_HEADERS)
