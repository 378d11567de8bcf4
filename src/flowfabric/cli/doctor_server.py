"""What `ff doctor` looks at over HTTP: the server, its version and its clock."""

from __future__ import annotations

import time
from typing import Final

import msgspec

import flowfabric
from flowfabric.cli.desk import token_for
from flowfabric.cli.findings import Finding, Verdict, judged
from flowfabric.client.address import read_address
from flowfabric.client.transport import HttpRequest, Limits, Transport
from flowfabric.model.times import span

SKEW_MS: Final = 1_000


async def examine(url: str) -> list[Finding]:
    """Ask the server about itself."""
    address = read_address(url, token_for(url))
    transport = Transport(address, Limits(tries=3))
    try:
        await transport.send(
            HttpRequest(method="GET", path="/livez", safe=True)
        )  # so that connecting is not timed
        asked = time.time()
        reply = await transport.send(HttpRequest(method="GET", path="/v1/stats", safe=True))
        stats = msgspec.json.decode(reply.body)
        clock = _clock(int(stats.get("now", 0)), asked)
    finally:
        await transport.close()
    theirs = str(stats.get("version", "unknown"))
    return [
        judged(
            "server", f"{theirs} on {stats.get('backend')}, up {span(int(stats.get('uptime_ms', 0)))}",
            good=theirs == flowfabric.__version__, verdict=Verdict.NOTE,
            remedy=f"this is {flowfabric.__version__}; upgrade the older one",
        ),
        judged(
            "token", "sent" if address.token else "none", good=bool(address.token), verdict=Verdict.NOTE,
            remedy="everybody who reaches the server may do everything; set FF_API_TOKEN there and here",
        ),
        *clock,
        Finding(
            "settings of its store", "not told over HTTP", Verdict.NOTE,
            "run ff doctor beside the server, with its --store",
        ),
    ]  # fmt: skip


def _clock(theirs: int, asked: float) -> list[Finding]:
    """Compare clocks, taking the middle of the call as the server's moment."""
    if not theirs:  # a server of an earlier version
        return []
    skew = round(theirs - (asked + time.time()) / 2 * 1_000)
    return [
        judged(
            "clock", f"{skew:+d} ms from this machine's", good=abs(skew) < SKEW_MS, verdict=Verdict.NOTE,
            remedy="let NTP set both clocks",
        )
    ]  # fmt: skip
