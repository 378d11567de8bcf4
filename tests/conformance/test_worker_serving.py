"""Who takes which work: kinds of live workers, groups of them, and counts that are kept."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flowfabric.model.limits import MAX_KINDS_PER_CLAIM, MAX_LIVENESS_MS
from flowfabric.model.operations.claim import Claim
from flowfabric.model.operations.lane import ListLanes
from flowfabric.model.operations.lease import CountLeases
from flowfabric.model.operations.operate import Replay
from flowfabric.model.operations.read import Describe, Description
from flowfabric.model.operations.read_list import CountExecutions
from flowfabric.model.operations.timer import Purge
from flowfabric.model.operations.worker import ListWorkers, MarkWorkerDead, RegisterWorker
from flowfabric.model.presence import MOST_GROUPS
from support.driver import Driver, new_uuid
from support.waiting import refused

LARGE_KINDS = tuple(f"{n:03}{'é' * 120}" for n in range(270))
"""Few enough, and each short enough; together they have more bytes than 64 KiB, if not more characters."""


def register(instance: str, **fields: Any) -> RegisterWorker:
    for field, value in (("worker_id", "w"), ("lanes", ("default",))):
        fields.setdefault(field, value)
    return RegisterWorker(worker_instance_id=instance, **fields)


async def describe(ff: Driver, execution_id: str) -> Description:
    return await ff.store.read(Describe(execution_id=execution_id))


async def reasons(ff: Driver, execution_id: str) -> list[str]:
    return [because.reason for because in (await describe(ff, execution_id)).because]


async def kinds(ff: Driver) -> dict[str, tuple[str, ...]]:
    return {worker.worker_instance_id: worker.kinds for worker in await ff.store.read(ListWorkers())}


# Kinds.


async def test_a_worker_takes_the_kinds_of_its_last_claim_or_registration(ff: Driver) -> None:
    await ff.store.apply(register("one", kinds=("b", "a", "b")))
    assert await kinds(ff) == {"one": ("a", "b")}
    await ff.claim(worker_id="w", worker_instance_id="one", kinds=("c", "a"))
    assert await kinds(ff) == {"one": ("a", "c")}
    await ff.claim(worker_id="w", worker_instance_id="one", kinds=None)
    assert await kinds(ff) == {"one": ()}
    await ff.claim(worker_id="w", worker_instance_id="two", kinds=("a",))
    await ff.claim(worker_id="w", worker_instance_id="two", kinds=("a", "d"))
    assert await kinds(ff) == {"one": (), "two": ("a", "d")}
    await ff.store.apply(register("two"))
    assert await kinds(ff) == {"one": (), "two": ()}


async def test_claims_of_one_group_leave_the_kinds_of_the_last(ff: Driver) -> None:
    claims = [
        Claim(worker_id="w", worker_instance_id="one", lanes=("default",), mint=new_uuid(), kinds=each)
        for each in (("a",), ("b",), None, ("c",))
    ]
    await ff.store.apply_many(claims)
    assert await kinds(ff) == {"one": ("c",)}
    execution_id = await ff.create(execution_kind="b")
    assert await reasons(ff, execution_id) == ["no_worker_for_kind"]


async def test_a_kind_that_nobody_takes_is_told_with_the_nearest_one(ff: Driver) -> None:
    execution_id = await ff.create(execution_kind="summarise")
    await ff.store.apply(register("one", kinds=("summarize", "translate")))
    await ff.store.apply(register("two", kinds=("publish",)))
    shown = await describe(ff, execution_id)
    (because,) = shown.because
    assert because.reason == "no_worker_for_kind"
    assert because.data["kinds"] == ("publish", "summarize", "translate")
    assert (because.data["nearest"], because.data["kind"]) == ("summarize", "summarise")
    assert "publish, summarize, translate" in because.detail
    assert "is summarize meant?" in because.detail
    assert shown.live_workers == 2
    assert (shown.run.eligibility_state, shown.run.blocking_reason) == ("eligible_now", "waiting_for_worker")


async def test_a_worker_that_takes_any_kind_takes_this_one(ff: Driver) -> None:
    execution_id = await ff.create(execution_kind="odd")
    await ff.store.apply(register("one", kinds=("other",)))
    assert await reasons(ff, execution_id) == ["no_worker_for_kind"]
    await ff.store.apply(register("two"))
    (because,) = (await describe(ff, execution_id)).because
    assert because.reason == "waiting_for_worker"
    assert because.data["live_workers"] == 2
    assert because.data["able_workers"] == 1
    await ff.store.apply(MarkWorkerDead(worker_instance_id="two"))
    assert await reasons(ff, execution_id) == ["no_worker_for_kind"]


async def test_nothing_like_it_means_no_nearest_name(ff: Driver) -> None:
    execution_id = await ff.create(execution_kind="zzz")
    await ff.store.apply(register("one", kinds=("other",)))
    (because,) = (await describe(ff, execution_id)).because
    assert because.data["nearest"] == ""
    assert "meant" not in because.detail


async def test_capabilities_count_among_those_that_take_the_kind(ff: Driver) -> None:
    gpu = {"routing_requirements": {"required_capabilities": ["gpu"]}}
    execution_id = await ff.create(execution_kind="a", policy=gpu)
    await ff.store.apply(register("one", kinds=("a",)))
    await ff.store.apply(register("two", kinds=("b",), capabilities=("gpu",)))
    shown = await describe(ff, execution_id)
    assert shown.run.eligibility_state == "blocked_by_route"
    assert [each.reason for each in shown.because] == ["waiting_for_capable_worker"]
    assert shown.because[0].data["missing"] == ("gpu",)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kinds": ("",)},
        {"kinds": ("a\nb",)},
        {"kinds": tuple(f"k{n}" for n in range(MAX_KINDS_PER_CLAIM + 1))},
        {"kinds": LARGE_KINDS},
        {"liveness_ttl_ms": MAX_LIVENESS_MS + 1},
    ],
)
async def test_bad_registrations_are_refused(ff: Driver, wrong: dict[str, Any]) -> None:
    (field,) = wrong
    assert (await refused(ff, register("one", **wrong), "invalid_input")).field == field
    await ff.store.apply(register("one", liveness_ttl_ms=MAX_LIVENESS_MS))


async def test_the_kinds_of_a_claim_are_limited_in_bytes(ff: Driver) -> None:
    claim = Claim(worker_id="w", worker_instance_id="one", lanes=("default",), mint=new_uuid())
    error = await refused(ff, replace(claim, kinds=LARGE_KINDS), "invalid_input")
    assert (error.field, "65536" in error.text) == ("kinds", True)
    await ff.store.apply(replace(claim, kinds=LARGE_KINDS[:260]))
    assert await kinds(ff) == {"one": LARGE_KINDS[:260]}


# Groups.


async def test_workers_of_other_namespaces_do_not_count(ff: Driver) -> None:
    mine = await ff.create(namespace="team", execution_kind="a")
    await ff.store.apply(register("one", namespace="foreign", kinds=("secret",)))
    assert (await describe(ff, mine)).live_workers == 0
    assert await reasons(ff, mine) == ["waiting_for_worker"]
    await ff.store.apply(register("two", namespace="team", kinds=("b",)))
    assert (await describe(ff, mine)).because[0].data["kinds"] == ("b",)
    await ff.store.apply(register("three"))  # bound to no namespace
    assert (await describe(ff, mine)).live_workers == 2
    assert await reasons(ff, mine) == ["waiting_for_worker"]


async def test_a_worker_that_takes_something_else_now_counts_there_only(ff: Driver) -> None:
    here, there = await ff.create(), await ff.create(lane_id="there")
    await ff.store.apply(register("one", lanes=("default", "there"), capabilities=("x",)))
    assert [(await describe(ff, each)).live_workers for each in (here, there)] == [1, 1]
    await ff.store.apply(register("one", lanes=("there",), capabilities=("y",)))
    assert [(await describe(ff, each)).live_workers for each in (here, there)] == [0, 1]
    await ff.store.apply(MarkWorkerDead(worker_instance_id="one"))
    assert [(await describe(ff, each)).live_workers for each in (here, there)] == [0, 0]


async def test_one_that_is_gone_and_collected_comes_back(ff: Driver) -> None:
    execution_id = await ff.create(execution_kind="b")
    await ff.store.apply(register("one", liveness_ttl_ms=1_000, kinds=("a",)))
    ff.clock.advance(1_000)
    assert (await describe(ff, execution_id)).live_workers == 0
    assert await ff.store.collect() == 1
    assert await ff.store.collect() == 0
    assert "worker" not in (await ff.store.dump()).records
    await ff.claim(worker_instance_id="one", kinds=("a",))
    assert await reasons(ff, execution_id) == ["no_worker_for_kind"]


async def test_with_more_groups_than_are_looked_at_nothing_is_claimed_of_the_rest(ff: Driver) -> None:
    execution_id = await ff.create(execution_kind="wanted")
    for number in range(MOST_GROUPS + 1):
        await ff.store.apply(register(f"w{number}", kinds=(f"kind{number:03}",)))
    shown = await describe(ff, execution_id)
    assert shown.live_workers == MOST_GROUPS
    assert [each.reason for each in shown.because] == ["waiting_for_worker"]
    assert f"more than {MOST_GROUPS} live workers" in shown.because[0].detail


async def test_many_alike_are_one_group(ff: Driver) -> None:
    execution_id = await ff.create(execution_kind="b")
    await ff.store.apply_many([register(f"w{number}", kinds=("a",)) for number in range(MOST_GROUPS + 10)])
    shown = await describe(ff, execution_id)
    assert shown.live_workers == MOST_GROUPS + 10
    assert [each.reason for each in shown.because] == ["no_worker_for_kind"]


# Pages and counts.


async def test_workers_come_in_pages_and_by_namespace(ff: Driver) -> None:
    for namespace in ("a", "a2", "b"):
        for instance in ("y", "x", "z"):
            await ff.store.apply(register(instance, namespace=namespace))
    await ff.store.apply(register("x!", namespace="b", liveness_ttl_ms=1))
    ff.clock.advance(1)
    seen: list[tuple[str, str]] = []
    after = ("", "")
    while page := await ff.store.read(ListWorkers(after=after, limit=2)):
        seen += [(worker.namespace, worker.worker_instance_id) for worker in page]
        after = seen[-1]
    assert seen == [(namespace, instance) for namespace in ("a", "a2", "b") for instance in "xyz"]
    own = await ff.store.read(ListWorkers(namespace="a", limit=2))
    assert [(worker.namespace, worker.worker_instance_id) for worker in own] == [("a", "x"), ("a", "y")]
    rest = await ff.store.read(ListWorkers(namespace="a", after=("a", "y"), limit=2))
    assert [(worker.namespace, worker.worker_instance_id) for worker in rest] == [("a", "z")]


async def test_lanes_come_in_pages(ff: Driver) -> None:
    for lane in ("c", "a", "d", "b"):
        await ff.create(lane_id=lane, namespace="team" if lane in "ad" else "default")
    assert [lane.lane_id for lane in await ff.store.read(ListLanes(limit=2))] == ["a", "b"]
    rest = await ff.store.read(ListLanes(limit=9, after="b"))
    assert [(lane.lane_id, dict(lane.counts)) for lane in rest] == [
        ("c", {"waiting": 1}),
        ("d", {"waiting": 1}),
    ]
    own = await ff.store.read(ListLanes(namespace="team", after="a"))
    assert [lane.lane_id for lane in own] == ["d"]


async def test_counts_follow_what_happens(ff: Driver) -> None:
    async def counts(namespace: str = "") -> dict[str, int]:
        return {str(state): n for state, n in await ff.store.read(CountExecutions(namespace=namespace))}

    assert await counts() == {}
    await ff.create(namespace="team", lane_id="a")
    await ff.create(namespace="team", lane_id="b")
    task = await ff.running(policy={"stream_policy": {"retention_ttl_ms": 1}})
    assert await counts() == {"waiting": 2, "active": 1}
    assert await counts("team") == {"waiting": 2}
    assert await counts("default") == {"active": 1}
    await ff.complete(task)
    assert await counts() == {"waiting": 2, "completed": 1}
    await ff.store.apply(Replay(execution_id=task.execution_id))
    assert await counts("default") == {"waiting": 1}
    await ff.complete(await ff.claim_one())
    ff.clock.advance(10)
    await ff.store.apply(Purge(execution_id=task.execution_id))
    assert await counts("default") == {}
    assert await counts() == {"waiting": 2}
    assert (await ff.store.repair()).wrong == ()


async def test_leases_are_counted_by_namespace(ff: Driver) -> None:
    for namespace in ("team", "team", "default"):
        await ff.create(namespace=namespace)
    assert len(await ff.claim(worker_instance_id="one", max_tasks=5)) == 3
    ids = ("one", "nobody")
    assert await ff.store.read(CountLeases(worker_instance_ids=ids)) == (3, 0)
    assert await ff.store.read(CountLeases(worker_instance_ids=ids, namespace="team")) == (2, 0)
