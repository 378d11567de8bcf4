"""What a server says about itself: health, metrics, and the description of its interface."""

from __future__ import annotations

from typing import Any

from flowfabric.wire.answers import View
from flowfabric.wire.rights import Right
from flowfabric.wire.route import route

HTML = "text/html"


class StatusView(View, frozen=True, kw_only=True):
    """How a server is."""

    status: str


HEALTHZ = route(
    "healthz",
    "GET",
    "/healthz",
    Right.NOTHING,
    "Answer when the store answers.",
    answer=StatusView,
    classic=True,
)
READYZ = route(
    "readyz",
    "GET",
    "/readyz",
    Right.NOTHING,
    "Answer when the server takes work: its store answers, and it is not shutting down.",
    answer=StatusView,
)
LIVEZ = route(
    "livez",
    "GET",
    "/livez",
    Right.NOTHING,
    "Answer while the process lives, whatever the store does.",
    answer=StatusView,
)
METRICS = route(
    "metrics",
    "GET",
    "/metrics",
    Right.NOTHING,
    "Show what the server has counted.",
    media="text/plain",
    classic=True,
)
ROOT = route(
    "root",
    "GET",
    "/",
    Right.NOTHING,
    "Show where to go.",
    media=HTML,
    statuses=((200, "A small page with links."),),
)
OPENAPI = route(
    "openapi",
    "GET",
    "/openapi.json",
    Right.NOTHING,
    "Describe every route for programs.",
    answer=dict[str, Any],
    statuses=((200, "An OpenAPI 3.1 document."),),
)
DOCS = route(
    "docs",
    "GET",
    "/docs",
    Right.NOTHING,
    "Describe every route for people.",
    media=HTML,
    statuses=((200, "A page that needs nothing from elsewhere."),),
)
