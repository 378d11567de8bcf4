"""What the server says about itself: whether it is well, what it counts, what its interface looks like."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from flowfabric.model.operations.access_secret import ListKids
from flowfabric.server.http.call import Response, ServerCall, encode
from flowfabric.server.http.pages import page
from flowfabric.server.http.routing import serves
from flowfabric.wire.about import DOCS, HEALTHZ, LIVEZ, METRICS, OPENAPI, READYZ, ROOT, StatusView
from flowfabric.wire.errors import HttpError

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
OK = StatusView(status="ok")
PAGE_HEADERS = (("content-security-policy", _POLICY), ("x-content-type-options", "nosniff"))


@cache
def _document() -> bytes:
    from flowfabric.server.http.openapi import document  # noqa: PLC0415 - it loads every route, this one too

    return encode(document())


@cache
def _page() -> bytes:
    return files("flowfabric.server").joinpath("assets/docs.html").read_bytes()


@serves(ROOT)
async def root(_: ServerCall) -> Response:
    """Show where to go."""
    return page("FlowFabric", _WHERE_TO_GO)


@serves(OPENAPI)
async def openapi(_: ServerCall) -> Response:
    """Describe every route for programs."""
    return Response(raw=_document())


@serves(DOCS)
async def docs(_: ServerCall) -> Response:
    """Describe every route for people."""
    return Response(raw=_page(), content_type="text/html; charset=utf-8", headers=PAGE_HEADERS)


@serves(HEALTHZ)
async def healthz(call: ServerCall) -> Response:
    """Answer when the store answers."""
    await call.read(ListKids())
    return Response(OK)


@serves(READYZ)
async def readyz(call: ServerCall) -> Response:
    """Answer when the server takes work: its store answers, and it is not shutting down."""
    if call.server.stopping.is_set():
        raise HttpError(
            503, "the server is shutting down", "shutting_down", kind="shutting_down", retryable=True
        )
    await call.read(ListKids())
    return Response(OK)


@serves(LIVEZ)
async def livez(_: ServerCall) -> Response:
    """Answer while the process lives, whatever the store does."""
    return Response(OK)


@serves(METRICS)
async def metrics(call: ServerCall) -> Response:
    """Show what the server has counted."""
    counted = call.server.metrics
    if counted is None:
        raise HttpError(404, "metrics need prometheus_client, of the extra server", "not_found")
    from flowfabric.server.observe.metrics import CONTENT_TYPE  # noqa: PLC0415 - needs prometheus_client

    return Response(raw=await counted.text(call.store, call.server.settings.lanes), content_type=CONTENT_TYPE)
