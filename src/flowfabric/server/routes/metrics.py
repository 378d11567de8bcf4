"""Metrics for Prometheus."""

from __future__ import annotations

from flowfabric.server.call import Answer, Call
from flowfabric.server.errors import HttpError
from flowfabric.server.roles import Need
from flowfabric.server.routing import endpoint


@endpoint("GET", "/metrics", Need.NOTHING, classic=True)
async def metrics(call: Call) -> Answer:
    """Show what the server has counted."""
    counted = call.server.metrics
    if counted is None:
        raise HttpError(404, "metrics need prometheus_client, of the extra server", "not_found")
    from flowfabric.server.metrics import CONTENT_TYPE  # noqa: PLC0415 - needs prometheus_client

    return Answer(raw=await counted.text(call.store, call.server.settings.lanes), content_type=CONTENT_TYPE)
