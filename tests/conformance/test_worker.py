"""Workers: who lives, on which lanes, and what each holds."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model.operations.lease import ListLeases
from flowfabric.model.operations.timer import LoseDeadLease, MarkedExpired
from flowfabric.model.operations.worker import (
    HeartbeatWorker,
    ListWorkers,
    Marked,
    MarkWorkerDead,
    NotRegistered,
    Refreshed,
    Registered,
    RegisterWorker,
)
from flowfabric.model.records import Worker
from support.driver import Driver
from support.waiting import refused, suspend


def register(instance: str = "i1", **fields: Any) -> RegisterWorker:
    for field, value in (("worker_id", "w1"), ("lanes", ("default",)), ("liveness_ttl_ms", 1_000)):
        fields.setdefault(field, value)
    return RegisterWorker(worker_instance_id=instance, **fields)


def heartbeat(instance: str = "i1", **fields: Any) -> HeartbeatWorker:
    return HeartbeatWorker(worker_instance_id=instance, **fields)


async def live(ff: Driver) -> list[Worker]:
    return list(await ff.store.read(ListWorkers()))


async def instances(ff: Driver) -> list[str]:
    return [worker.worker_instance_id for worker in await live(ff)]


async def test_a_worker_registers(ff: Driver) -> None:
    assert await live(ff) == []
    command = register(lanes=("b", "a"), capabilities=("gpu", "cpu"), namespace="team")
    assert await ff.store.apply(command) == Registered()
    (worker,) = await live(ff)
    assert (worker.worker_id, worker.worker_instance_id, worker.namespace) == ("w1", "i1", "team")
    assert (set(worker.lanes), set(worker.capabilities)) == ({"a", "b"}, {"cpu", "gpu"})
    assert (worker.last_heartbeat_at, worker.registered_at, worker.liveness_ttl_ms) == (ff.now, ff.now, 1_000)


async def test_registering_again_refreshes_and_overwrites(ff: Driver) -> None:
    await ff.store.apply(register())
    ff.clock.advance(500)
    again = register(lanes=("other",), capabilities=("gpu",), liveness_ttl_ms=2_000)
    assert await ff.store.apply(again) == Refreshed(ff.now + 2_000)
    (worker,) = await live(ff)
    assert (worker.lanes, worker.capabilities, worker.liveness_ttl_ms) == (("other",), ("gpu",), 2_000)
    assert worker.last_heartbeat_at == ff.now


async def test_after_its_death_a_worker_registers_anew(ff: Driver) -> None:
    await ff.store.apply(register())
    ff.clock.advance(1_001)
    assert await ff.store.apply(register()) == Registered()
    assert (await live(ff))[0].registered_at == ff.now


async def test_an_instance_belongs_to_one_worker(ff: Driver) -> None:
    await ff.store.apply(register())
    error = await refused(ff, register(worker_id="w2"), "invalid_input")
    assert "instance_id reassigned" in error.text


async def test_heartbeats_keep_a_worker_alive(ff: Driver) -> None:
    await ff.store.apply(register())
    for _ in range(5):
        ff.clock.advance(900)
        assert await ff.store.apply(heartbeat()) == Refreshed(ff.now + 1_000)
    assert await instances(ff) == ["i1"]
    ff.clock.advance(1_001)
    assert await instances(ff) == []
    assert await ff.store.apply(heartbeat()) == NotRegistered()
    assert await instances(ff) == []


async def test_a_heartbeat_of_a_stranger(ff: Driver) -> None:
    await ff.store.apply(register(namespace="team"))
    assert await ff.store.apply(heartbeat("other")) == NotRegistered()
    assert await ff.store.apply(heartbeat("i1")) == NotRegistered()
    assert await ff.store.apply(heartbeat("i1", namespace="team")) == Refreshed(ff.now + 1_000)


async def test_a_dead_worker_is_gone_at_once(ff: Driver) -> None:
    await ff.store.apply(register())
    dead = MarkWorkerDead(worker_instance_id="i1", reason="out of memory")
    assert await ff.store.apply(dead) == Marked()
    assert await instances(ff) == []
    assert await ff.store.apply(dead) == NotRegistered()
    assert await ff.store.apply(heartbeat()) == NotRegistered()
    assert await ff.store.apply(register()) == Registered()


@pytest.mark.parametrize("reason", ["r" * 257, "a\nb", "\x00"])
async def test_the_reason_of_a_death_is_checked(ff: Driver, reason: str) -> None:
    await ff.store.apply(register())
    dead = MarkWorkerDead(worker_instance_id="i1", reason=reason)
    assert (await refused(ff, dead, "invalid_input")).field == "reason"


async def test_the_leases_of_the_dead_are_taken_one_by_one(ff: Driver) -> None:
    await ff.store.apply(register("w1-a"))
    task = await ff.running()
    await ff.store.apply(MarkWorkerDead(worker_instance_id="w1-a"))
    assert await ff.store.read(ListLeases(worker_instance_id="w1-a")) == (task.execution_id,)
    lose = LoseDeadLease(execution_id=task.execution_id, worker_instance_id="w1-a")
    assert await ff.store.apply(lose) == MarkedExpired()
    run = await ff.show(task.execution_id)
    assert (run.ownership_state, run.lease_end) == ("lease_expired_reclaimable", "worker_dead")
    again = await ff.claim_one(worker_instance_id="w1-b")
    assert (again.attempt_type, again.attempt_index) == ("reclaim", 1)
    assert (await ff.show(task.execution_id)).lease_reclaim_count == 1


async def test_workers_are_listed_by_instance(ff: Driver) -> None:
    for instance in ("m", "z", "a"):
        await ff.store.apply(register(instance))
    assert await instances(ff) == ["a", "m", "z"]


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"worker_id": "a b"}, "invalid_input", "worker_id"),
        ({"instance": ""}, "invalid_input", "worker_instance_id"),
        ({"lanes": ()}, "invalid_input", "lanes"),
        ({"lanes": ("x" * 65,)}, "invalid_input", "lanes"),
        ({"lanes": tuple(f"l{n}" for n in range(65))}, "invalid_input", "lanes"),
        ({"capabilities": ("a,b",)}, "invalid_capabilities", "worker_capabilities"),
        ({"liveness_ttl_ms": 0}, "invalid_input", "liveness_ttl_ms"),
        ({"namespace": ""}, "invalid_input", "namespace"),
    ],
)
async def test_registrations_are_checked(ff: Driver, fields: dict[str, Any], code: str, field: str) -> None:
    assert (await refused(ff, register(**fields), code)).field == field


async def test_a_claim_is_a_sign_of_life(ff: Driver) -> None:
    await ff.claim(worker_instance_id="i9", lanes=("b", "a"), capabilities=("gpu",))
    (worker,) = await live(ff)
    assert (worker.worker_id, worker.worker_instance_id) == ("w1", "i9")
    assert (set(worker.lanes), worker.capabilities) == ({"a", "b"}, ("gpu",))
    assert (worker.registered_at, worker.liveness_ttl_ms, worker.last_heartbeat_at) == (0, 30_000, ff.now)
    ff.clock.advance(20_000)
    await ff.claim(worker_instance_id="i9", lanes=("b", "a"), capabilities=("gpu",))
    ff.clock.advance(29_999)
    assert await instances(ff) == ["i9"]
    ff.clock.advance(2)
    assert await instances(ff) == []


async def test_a_claim_keeps_a_registered_worker_alive(ff: Driver) -> None:
    await ff.store.apply(register("w1-a", liveness_ttl_ms=60_000, capabilities=("gpu",)))
    ff.clock.advance(50_000)
    await ff.claim()
    ff.clock.advance(50_000)
    (worker,) = await live(ff)
    assert (worker.capabilities, worker.liveness_ttl_ms, worker.registered_at > 0) == (("gpu",), 60_000, True)


async def test_frequent_claims_keep_a_worker_of_a_short_life_alive(ff: Driver) -> None:
    await ff.store.apply(register("w1-a", liveness_ttl_ms=3_000))
    for _ in range(4):
        ff.clock.advance(2_000)
        await ff.claim()
        assert await instances(ff) == ["w1-a"]


async def test_leases_are_listed_by_their_holder(ff: Driver) -> None:
    await ff.seed()
    one, two = await ff.running(), await ff.running()
    await ff.create()
    other = await ff.claim_one(worker_instance_id="w1-b")
    held = await ff.store.read(ListLeases(worker_instance_id="w1-a"))
    assert set(held) == {one.execution_id, two.execution_id}
    assert await ff.store.read(ListLeases(worker_instance_id="w1-b")) == (other.execution_id,)
    assert await ff.store.read(ListLeases(worker_instance_id="nobody")) == ()
    await ff.complete(one)
    await suspend(ff, two)
    assert await ff.store.read(ListLeases(worker_instance_id="w1-a")) == ()
