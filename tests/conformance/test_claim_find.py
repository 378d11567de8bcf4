"""Looking for work without taking it."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model.errors import FlowFabricError
from flowfabric.model.operations.claim import FindClaimable
from flowfabric.model.operations.grant import IssueClaimGrant
from flowfabric.model.operations.lane import PauseLane
from flowfabric.model.operations.lease import Release
from support.driver import Driver


async def find(ff: Driver, **fields: Any) -> list[str]:
    asked: dict[str, Any] = {"lane_id": "default", "limit": 10}
    return list(await ff.store.read(FindClaimable(**asked | fields)))


async def test_the_best_comes_first_and_stays(ff: Driver) -> None:
    low = await ff.create()
    high = await ff.create(priority=5)
    await ff.create(lane_id="other")
    assert await find(ff) == [high, low]
    assert await find(ff, limit=1) == [high]
    assert (await ff.claim_one()).execution_id == high
    assert await find(ff) == [low]


async def test_only_what_the_worker_may_run(ff: Driver) -> None:
    needy = await ff.create(priority=1, policy={"routing_requirements": {"required_capabilities": ["gpu"]}})
    foreign = await ff.create(namespace="acme")
    assert await find(ff) == [foreign]
    assert await find(ff, capabilities=("gpu",)) == [needy, foreign]
    assert await find(ff, capabilities=("gpu",), namespace="default") == [needy]


async def test_promised_work_is_passed_over(ff: Driver) -> None:
    first, second = await ff.create(priority=1), await ff.create()
    await ff.store.apply(
        IssueClaimGrant(execution_id=first, worker_id="w2", worker_instance_id="w2-a", grant_ttl_ms=5_000)
    )
    assert await find(ff) == [second]


async def test_work_whose_lease_is_gone_hides_nothing(ff: Driver) -> None:
    for _ in range(3):
        await ff.create(priority=9)
    for task in await ff.claim(max_tasks=3):
        await ff.store.apply(Release(execution_id=task.execution_id, fence=task.fence))
    waiting = [await ff.create(), await ff.create()]
    assert sorted(await find(ff, limit=2)) == sorted(waiting)
    assert len(await find(ff, limit=1)) == 1


async def test_a_paused_lane_offers_nothing(ff: Driver) -> None:
    await ff.create()
    await ff.store.apply(PauseLane(lane_id="default"))
    assert await find(ff) == []


@pytest.mark.parametrize("fields", [{"lane_id": ""}, {"limit": 0}, {"limit": 1_001}, {"capabilities": ("",)}])
async def test_nonsense_is_refused(ff: Driver, fields: Any) -> None:
    code = "invalid_capabilities" if "capabilities" in fields else "invalid_input"
    with pytest.raises(FlowFabricError) as refusal:
        await find(ff, **fields)
    assert refusal.value.code == code
