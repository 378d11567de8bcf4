"""What every partition of a cluster has a copy of: the keys that sign tokens, and lanes.

The original stands in the common home and is changed first. A process that dies before all copies are written leaves
some behind; they are mended when a store is opened, and at every clean-up.
"""

from __future__ import annotations

from typing import Any, Final

from flowfabric.model.errors import StoreBusy
from flowfabric.storage.valkey.cluster.cluster import Cluster, raised
from flowfabric.storage.valkey.keys import KEYRING, LANES, Layout

TRIES: Final = 16


async def spread(cluster: Cluster, layout: Layout) -> None:
    """Make every copy like its original; again, when that has changed meanwhile."""
    ring: Any = b""
    lanes: Any = b""
    for _ in range(TRIES):
        seen = await _originals(cluster, layout)
        if seen == (ring, lanes):
            return
        ring, lanes = seen
        held_rings = await _copies(cluster, layout, "GET", KEYRING)
        held_lanes = await _copies(cluster, layout, "HGETALL", LANES)
        writes: list[tuple[Any, ...]] = []
        for home in layout.homes:
            if ring is not None and held_rings[home] != ring:
                writes.append(("SET", home + KEYRING, ring))
            if lanes and _pairs(held_lanes[home]) != _pairs(lanes):
                writes.append(("HSET", home + LANES, *lanes))
        if not writes:
            return
        raised(await cluster.several(writes))
    raise StoreBusy("secrets or lanes change all the time; try again")


async def _originals(cluster: Cluster, layout: Layout) -> tuple[Any, Any]:
    ring, lanes = raised(
        await cluster.several([("GET", layout.common + KEYRING), ("HGETALL", layout.common + LANES)])
    )
    return ring, lanes


async def _copies(cluster: Cluster, layout: Layout, verb: str, name: str) -> dict[str, Any]:
    answers = raised(await cluster.several([(verb, home + name) for home in layout.homes]))
    return dict(zip(layout.homes, answers, strict=True))


def _pairs(flat: list[bytes]) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True))
