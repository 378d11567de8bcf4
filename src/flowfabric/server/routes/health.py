"""Whether the server lives, and whether its store does."""

from __future__ import annotations

from flowfabric.model.operations.access_secret import ListKids
from flowfabric.server.call import Answer, Call
from flowfabric.server.errors import HttpError
from flowfabric.server.roles import Need
from flowfabric.server.routing import endpoint

OK = {"status": "ok"}


@endpoint("GET", "/healthz", Need.NOTHING, classic=True)
async def healthz(call: Call) -> Answer:
    """Answer when the store answers."""
    await call.read(ListKids())
    return Answer(OK)


@endpoint("GET", "/readyz", Need.NOTHING)
async def readyz(call: Call) -> Answer:
    """Answer when the server takes work: its store answers, and it is not shutting down."""
    if call.server.stopping.is_set():
        raise HttpError(
            503, "the server is shutting down", "shutting_down", kind="shutting_down", retryable=True
        )
    await call.read(ListKids())
    return Answer(OK)


@endpoint("GET", "/livez", Need.NOTHING)
async def livez(_: Call) -> Answer:
    """Answer while the process lives, whatever the store does."""
    return Answer(OK)
