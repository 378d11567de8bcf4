"""Check a server over HTTP: its version, its token and its clock."""

from __future__ import annotations

import time

import msgspec

import flowfabric
from flowfabric.cli.doctor.finding import MAX_SKEW_MS, Finding, Verdict, check
from flowfabric.cli.support.target import token_for
from flowfabric.client.address import read_address
from flowfabric.client.transport import HttpRequest, Limits, Transport
from flowfabric.model.times import span


async def check_server(url: str) -> list[Finding]:
    """Check the server at a URL."""
    address = read_address(url, token_for(url))
    transport = Transport(address, Limits(tries=3))
    try:
        # Connect first, so that the next call measures the clock and not the connection.
        await transport.send(HttpRequest(method="GET", path="/livez", safe=True))
        asked_at = time.time()
        reply = await transport.send(HttpRequest(method="GET", path="/v1/stats", safe=True))
        stats = msgspec.json.decode(reply.body)
        clock = _check_clock(int(stats.get("now", 0)), asked_at)
    finally:
        await transport.close()
    version = str(stats.get("version", "unknown"))
    return [
        check(
            "server",
            f"{version} on {stats.get('backend')}, up {span(int(stats.get('uptime_ms', 0)))}",
            ok=version == flowfabric.__version__,
            verdict=Verdict.NOTE,
            remedy=f"this is {flowfabric.__version__}; upgrade the older one",
        ),
        check(
            "token",
            "sent" if address.token else "none",
            ok=bool(address.token),
            verdict=Verdict.NOTE,
            remedy="everybody who reaches the server may do everything; set FF_API_TOKEN there and here",
        ),
        *clock,
        Finding(
            "settings of its store",
            "not visible over HTTP",
            Verdict.NOTE,
            "run ff doctor next to the server, with its --store",
        ),
    ]


def _check_clock(server_ms: int, asked_at: float) -> list[Finding]:
    """Compare the clocks; the server is taken to have read its own in the middle of the call."""
    if not server_ms:  # older servers do not tell it
        return []
    skew = round(server_ms - (asked_at + time.time()) / 2 * 1_000)
    return [
        check(
            "clock",
            f"{skew:+d} ms from this machine's",
            ok=abs(skew) < MAX_SKEW_MS,
            verdict=Verdict.NOTE,
            remedy="let NTP set both clocks",
        )
    ]
