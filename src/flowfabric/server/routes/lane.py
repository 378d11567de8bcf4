"""Lanes."""

from __future__ import annotations

from flowfabric.model.command import PAGE_MAX
from flowfabric.model.operations.lane import LaneView, ListLanes
from flowfabric.server.http.call import Response, ServerCall
from flowfabric.server.http.listing import read_names
from flowfabric.server.http.routing import serves
from flowfabric.wire.lane import LIST_LANES, LanePage, LaneRow


@serves(LIST_LANES)
async def lanes(call: ServerCall) -> Response:
    """List lanes, those of the settings among them."""
    limit, after = call.query.limit, call.query.cursor
    asked = min(limit + 1, PAGE_MAX)
    question = ListLanes(namespace=call.principal.namespace, after=after, limit=asked)
    found, more = await read_names(call, question)
    configured = [
        name
        for name in call.server.settings.lanes
        if name > after and not (more and name > found[-1].lane_id)  # its turn comes on a later page
    ]
    known = {name: LaneView(name, (), 0, 0, "") for name in configured}
    known |= {lane.lane_id: lane for lane in found}
    page = [known[name] for name in sorted(known)][:limit]
    more = more or len(known) > limit
    rows = tuple(_row(lane, call.now()) for lane in page)
    return Response(LanePage(lanes=rows, next_cursor=page[-1].lane_id if more else None))


def _row(lane: LaneView, now: int) -> LaneRow:
    waiting_since = lane.oldest_waiting_at
    return LaneRow.of(
        lane,
        counts={str(state): count for state, count in lane.counts},
        paused=bool(lane.paused_at),
        oldest_waiting_age_ms=max(now - waiting_since, 0) if waiting_since else None,
    )
