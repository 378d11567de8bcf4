"""Lanes: pausing them, and what is in them."""

from __future__ import annotations

from flowfabric.model.operations.lane import ListLanes, PauseLane, UnpauseLane
from flowfabric.model.operations.operate import Paused, Unpaused
from flowfabric.wire.answers import View, one_of
from flowfabric.wire.operate import ReasonBody
from flowfabric.wire.read import NamesQuery
from flowfabric.wire.rights import Right
from flowfabric.wire.route import always, route

PAUSE_LANE = route(
    "pause_lane", "POST", "/v1/lanes/{lane}/pause", Right.OPERATE, "Stop claims on a lane.",
    command=PauseLane, body=ReasonBody, body_optional=True, answer=one_of(Paused), safe=always,
    example={"reason": "maintenance"},
)  # fmt: skip
UNPAUSE_LANE = route(
    "unpause_lane", "POST", "/v1/lanes/{lane}/unpause", Right.OPERATE, "Allow claims on a lane again.",
    command=UnpauseLane, body=ReasonBody, body_optional=True, answer=one_of(Unpaused), safe=always,
    example={"reason": "maintenance is over"},
)  # fmt: skip


class LaneRow(View, frozen=True, kw_only=True):
    """A lane, and how many executions of it are in which state."""

    lane_id: str
    counts: dict[str, int]
    oldest_waiting_age_ms: int | None
    paused: bool
    paused_at: int = 0
    pause_reason: str = ""


class LanePage(View, frozen=True, kw_only=True):
    """Lanes by name."""

    lanes: tuple[LaneRow, ...]
    next_cursor: str | None


LIST_LANES = route(
    "lanes", "GET", "/v1/lanes", Right.READ,
    "List lanes with what is in them; configured lanes are there from the start.",
    questions=(ListLanes,), query=NamesQuery, answer=LanePage, bound=True,
)  # fmt: skip
