"""Open, pause, unpause and list lanes."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from flowfabric.model import checks
from flowfabric.model.command import Command, NamespaceQuestion, ReadRequest
from flowfabric.model.limits import MAX_NAME_BYTES, MAX_TEXT_BYTES
from flowfabric.model.machine.group import step
from flowfabric.model.machine.workspace import Workspace
from flowfabric.model.operations.operate import Paused, Unpaused
from flowfabric.model.record_kinds import LANE, IndexQuery
from flowfabric.model.records import VERSION, Lane
from flowfabric.model.state import Public


class _LaneCommand(Command[Paused | Unpaused], frozen=True, kw_only=True):
    lane_id: str

    def check(self) -> None:
        """Check the lane."""
        super().check()
        checks.lane(self.lane_id)

    def reads(self) -> tuple[ReadRequest, ...]:
        """The lane."""
        return ((LANE, (self.lane_id,)),)


class PauseLane(_LaneCommand, frozen=True, kw_only=True):
    """Stop claims on a lane."""

    reason: str = ""

    def check(self) -> None:
        """Check lane and reason."""
        super().check()
        checks.text("reason", self.reason, max_bytes=MAX_TEXT_BYTES, empty=True)


@step(PauseLane)
def pause_lane(space: Workspace, command: PauseLane) -> Paused:
    """Stop claims on a lane; what waits there shows it when read."""
    lane = space.get(LANE, command.lane_id)
    if lane is None or not lane.paused_at:
        paused = Lane(VERSION, command.lane_id, space.now, command.reason)
        space.put(LANE, command.lane_id, value=paused)
    return Paused()


class OpenLane(_LaneCommand, frozen=True, kw_only=True):
    """Make a lane known before anything is in it; one that is known stays as it is."""


@step(OpenLane)
def open_lane(space: Workspace, command: OpenLane) -> Unpaused | Paused:
    """Write a lane down, so that everybody lists it; say whether claims may take from it."""
    lane = space.get(LANE, command.lane_id)
    if lane is None:
        space.put(LANE, command.lane_id, value=Lane(VERSION, command.lane_id))
    return Paused() if lane is not None and lane.paused_at else Unpaused()


class UnpauseLane(_LaneCommand, frozen=True, kw_only=True):
    """Allow claims on a lane again."""


@step(UnpauseLane)
def unpause_lane(space: Workspace, command: UnpauseLane) -> Unpaused:
    """Allow claims on a lane again."""
    lane = space.get(LANE, command.lane_id)
    if lane is not None and lane.paused_at:
        space.put(LANE, command.lane_id, value=Lane(VERSION, command.lane_id))
    return Unpaused()


class LaneView(Struct, frozen=True):
    """One lane: how much is in which state, and since when the oldest waits."""

    lane_id: str
    counts: tuple[tuple[Public, int], ...]
    oldest_waiting_at: int
    paused_at: int
    pause_reason: str


class ListLanes(NamespaceQuestion[tuple[LaneView, ...]], frozen=True, kw_only=True):
    """Return lanes that were ever used, by name; of one namespace without saying since when the oldest waits."""

    after: str = ""
    """The last lane that was seen."""

    def check(self) -> None:
        """Check the cursor."""
        super().check()
        checks.text("after", self.after, max_bytes=MAX_NAME_BYTES, empty=True)


LaneRow = tuple[str, tuple[tuple[Public, int], ...], int]
"""A lane as a store lists it: its name, its counts, and since when its oldest work waits."""
LANES: Final[IndexQuery[tuple[LaneRow, ...]]] = IndexQuery("lanes")


@step(ListLanes)
def list_lanes(space: Workspace, question: ListLanes) -> tuple[LaneView, ...]:
    """Return a page of lanes with their counts and whether they are paused."""
    rows = space.get(LANES, question.namespace, question.after, question.limit)
    lanes = space.several(LANE, ((lane_id,) for lane_id, _, _ in rows))
    return tuple(
        LaneView(
            lane_id,
            counts,
            oldest_waiting_at,
            lane.paused_at if lane is not None else 0,
            lane.pause_reason if lane is not None else "",
        )
        for (lane_id, counts, oldest_waiting_at), lane in zip(rows, lanes, strict=True)
    )
