"""What may be a mistake in the names of a submission: nobody has published the kind, nobody serves the lane."""

from __future__ import annotations

from typing import Final

from flowfabric.cli.desk import Desk
from flowfabric.cli.kinds import listed
from flowfabric.model.command import PAGE_MAX
from flowfabric.model.errors import NotFound, Unauthorized
from flowfabric.model.kinds import DEFAULT_LANE
from flowfabric.model.operations.lane import ListLanes
from flowfabric.model.operations.worker import ListWorkers
from flowfabric.model.operations.worker_serving import nearest_name
from flowfabric.model.records import Kind

LOOKED_AT: Final = 1_000
"""Among so many published kinds the nearest name is looked for."""


async def advice(desk: Desk, kind: Kind | None) -> list[str]:
    """Say what is unknown of the kind and of the lane that a submission names."""
    notes = [] if kind is not None else [await _unpublished(desk)]
    lane = desk.given.lane
    if lane and (unserved := await _unserved(desk, lane, kind)):
        notes.append(unserved)
    return notes


async def _unpublished(desk: Desk) -> str:
    given = desk.given
    lacks = [*(() if given.lane else ("lane default",)), *(() if given.policy else ("no retries",))]
    words = f"no worker has published {given.kind} yet, so it has no options of its own"
    if lacks:
        words = f"{words} ({', '.join(lacks)})"
    try:
        names = [each.kind async for each in listed(desk, given.namespace, LOOKED_AT)]
    except (NotFound, Unauthorized):  # an older server, or a token that may only submit
        return words
    near = nearest_name(given.kind, names)
    return f"{words}; the nearest published name is {near}" if near else words


async def _unserved(desk: Desk, lane: str, kind: Kind | None) -> str:
    try:
        known = await known_lanes(desk)
    except (NotFound, Unauthorized):
        return ""
    if lane in known:
        return ""
    near = nearest_name(lane, known | ({kind.lane or DEFAULT_LANE} if kind is not None else set()) - {lane})
    words = f"no live worker serves lane {lane}, and there is no other work on it"
    return f"{words}; the nearest known lane is {near}" if near else words


async def known_lanes(desk: Desk) -> set[str]:
    """Name the lanes that have work or a live worker, and the one that is meant when nothing is said."""
    known = {DEFAULT_LANE}
    after = ""
    while views := await desk.store.read(ListLanes(after=after)):
        known |= {view.lane_id for view in views}
        if len(views) < PAGE_MAX:
            break
        after = views[-1].lane_id
    return known | {name for worker in await desk.store.read(ListWorkers()) for name in worker.lanes}
