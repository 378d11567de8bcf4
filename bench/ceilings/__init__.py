"""Ceilings: the same work done by bare statements or functions that decide nothing."""

from __future__ import annotations

from typing import Any

from bench.ceilings.sqlite import SqliteCeiling
from bench.ceilings.valkey import ValkeyCeiling
from bench.places import Place
from bench.queues import Queue


async def open_ceiling(place: Place) -> Queue[Any]:
    """Open the ceiling for a kind of store."""
    if place.url.startswith("valkey://"):
        return await ValkeyCeiling.open(place.url)
    return await SqliteCeiling.open(place.url, place.options["synchronous"])
