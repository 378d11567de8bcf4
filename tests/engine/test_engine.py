"""The engine on the real clock: what is due happens by itself."""

from __future__ import annotations

from pathlib import Path

from flowfabric.engine import Engine, claim_when_ready
from flowfabric.model import ids
from flowfabric.model.operations.claim import Claim
from flowfabric.model.operations.create import CreateExecution
from flowfabric.storage.minting import new_uuid
from flowfabric.storage.sqlite import SqliteStore


def claim() -> Claim:
    return Claim(
        worker_id="w", worker_instance_id="w-1", lanes=("default",), mint=new_uuid(), lease_ttl_ms=1000
    )


async def test_delays_and_lost_leases_need_nobody(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "ff.db")
    async with Engine(store):
        await store.apply(
            CreateExecution(
                execution_id=ids.spread(new_uuid(), store.partitions),
                execution_kind="job",
                delay_until=store.now() + 100,
            )
        )
        (task,) = (await claim_when_ready(store, claim(), 20_000)).tasks
        assert task.attempt_type == "initial"
        (again,) = (await claim_when_ready(store, claim(), 20_000)).tasks
        assert (again.attempt_type, again.execution_id) == ("reclaim", task.execution_id)
    await store.close()


async def test_a_second_engine_takes_over_when_the_first_stops(tmp_path: Path) -> None:
    first = await SqliteStore.open(tmp_path / "ff.db")
    second = await SqliteStore.open(tmp_path / "ff.db")
    async with Engine(second):
        async with Engine(first):
            pass
        await second.apply(
            CreateExecution(
                execution_id=ids.spread(new_uuid(), second.partitions),
                execution_kind="job",
                delay_until=second.now() + 50,
            )
        )
        assert (await claim_when_ready(first, claim(), 20_000)).tasks
    await first.close()
    await second.close()
