"""Lanes: opening, pausing, and how their work shows it."""

from __future__ import annotations

import pytest

from flowfabric.model.operations.lane import ListLanes, OpenLane, PauseLane, UnpauseLane
from flowfabric.model.operations.operate import Paused, Unpaused
from flowfabric.model.operations.read import Describe
from support import scenes
from support.driver import Driver
from support.expect import refuses, untouched

READY = ("eligible_now", "waiting_for_worker", "waiting")
LANE_HELD = ("blocked_by_lane_state", "paused_by_policy", "waiting")
NO_WORKER = ("blocked_by_route", "waiting_for_capable_worker", "waiting")
GPU = {"routing_requirements": {"required_capabilities": ["gpu"]}}


async def view(ff: Driver, execution_id: str) -> tuple[str, str, str]:
    run = await ff.show(execution_id)
    return run.eligibility_state, run.blocking_reason, run.public_state


async def test_paused_lane_is_seen_on_its_work_and_stored_on_none(ff: Driver) -> None:
    before_pause = await ff.create(lane_id="a")
    elsewhere = await ff.create(lane_id="b")
    records = (await ff.store.dump()).records["execution"]
    command = PauseLane(lane_id="a", reason="flood", actor="ann")
    assert await ff.store.apply(command) == Paused()
    assert (await ff.store.dump()).records["execution"] == records
    after_pause = await ff.create(lane_id="a")
    for execution_id in (before_pause, after_pause):
        assert await view(ff, execution_id) == LANE_HELD
        description = await ff.store.read(Describe(execution_id=execution_id))
        assert "paused_by_policy" in [because.reason for because in description.because]
    assert await view(ff, elsewhere) == READY
    lanes = {lane.lane_id: lane for lane in await ff.store.read(ListLanes())}
    assert (lanes["a"].paused_at, lanes["a"].pause_reason, lanes["b"].paused_at) == (ff.now, "flood", 0)
    assert await ff.store.apply(UnpauseLane(lane_id="a")) == Unpaused()
    for execution_id in (before_pause, after_pause):
        assert await view(ff, execution_id) == READY


async def test_pausing_and_unpausing_a_lane_twice_changes_nothing(ff: Driver) -> None:
    await ff.store.apply(PauseLane(lane_id="a", reason="r"))
    ff.clock.advance(10)
    async with untouched(ff):
        assert await ff.store.apply(PauseLane(lane_id="a", reason="r")) == Paused()
    for _ in range(2):
        assert await ff.store.apply(UnpauseLane(lane_id="a")) == Unpaused()


async def test_an_opened_lane_is_listed_while_nothing_is_in_it(ff: Driver) -> None:
    assert await ff.store.apply(OpenLane(lane_id="new")) == Unpaused()
    (lane,) = await ff.store.read(ListLanes())
    assert (lane.lane_id, lane.counts, lane.paused_at) == ("new", (), 0)


async def test_opening_a_lane_that_is_known_changes_nothing(ff: Driver) -> None:
    await ff.store.apply(PauseLane(lane_id="a", reason="r"))
    await ff.store.apply(OpenLane(lane_id="b"))
    async with untouched(ff):
        assert await ff.store.apply(OpenLane(lane_id="a")) == Paused()
        assert await ff.store.apply(OpenLane(lane_id="b")) == Unpaused()


@pytest.mark.parametrize("name", ["active", "suspended", "completed", "cancelled"])
async def test_paused_lane_changes_nothing_on_what_does_not_queue(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff)
    before = await ff.vector(scene.execution_id)
    await ff.store.apply(PauseLane(lane_id="default"))
    assert await ff.vector(scene.execution_id) == before


async def test_running_work_of_a_paused_lane_goes_on(ff: Driver) -> None:
    task = await ff.running()
    await ff.store.apply(PauseLane(lane_id="default"))
    assert (await ff.complete(task)).public_state == "completed"


@pytest.mark.parametrize("lane", ["", "x" * 65, "\u00e9"])
async def test_bad_lanes_are_refused(ff: Driver, lane: str) -> None:
    await refuses(ff, PauseLane(lane_id=lane), "invalid_input")
    await refuses(ff, UnpauseLane(lane_id=lane), "invalid_input")


async def test_work_that_no_live_worker_can_run_says_so(ff: Driver) -> None:
    execution_id = await ff.create(policy=GPU)
    assert await view(ff, execution_id) == READY
    records = (await ff.store.dump()).records["execution"]
    assert await ff.claim() == ()
    assert (await ff.store.dump()).records["execution"] == records
    assert await view(ff, execution_id) == NO_WORKER
    await ff.claim(lanes=("other",), capabilities=("gpu",), worker_id="w2", worker_instance_id="w2-a")
    assert await view(ff, execution_id) == NO_WORKER
    ff.clock.advance(30_001)
    assert await view(ff, execution_id) == READY
    await ff.claim()
    assert await view(ff, execution_id) == NO_WORKER
    assert (await ff.claim_one(capabilities=("gpu",))).execution_id == execution_id
