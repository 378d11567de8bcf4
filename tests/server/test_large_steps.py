"""What is stored of steps is read as far as it is shown, and no further: from outside, with the memory of a server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import quote

import pytest

from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.finish import Complete
from flowfabric.model.operations.operate import Replay
from flowfabric.model.operations.read import GetExecution
from flowfabric.model.operations.step import PutStep
from flowfabric.storage import open_unseeded
from flowfabric.storage.base import Upkeep
from support.attack import MIB, attacked
from support.clock import ManualClock
from support.driver import Driver
from support.process import Process, started
from support.serving import Backend, Serve

STEPS = 300


async def with_large_steps(store: Upkeep, count: int) -> Task:
    """Make an execution that runs and has stored so many steps of 1 MiB."""
    driver = Driver(store, ManualClock())
    await driver.create()
    task = await driver.claim_one(lease_ttl_ms=3_600_000)
    result = b'"' + b"x" * (MIB - 2) + b'"'
    for place in range(count):
        step = PutStep(
            execution_id=task.execution_id,
            fence=task.fence,
            step_name=f"s{place}",
            result=result,
            encoding="json",
        )
        await store.apply(step)
    return task


@pytest.mark.timeout(120)
async def test_lists_of_large_steps_take_no_memory(backend: Backend, tmp_path: Path) -> None:
    store = await open_unseeded(backend.url())
    try:
        task = await with_large_steps(store, STEPS)
        with started(tmp_path, *backend.flags) as server:
            await asyncio.to_thread(ask, server, f"/v1/executions/{quote(task.execution_id)}")
        await store.apply(Complete(execution_id=task.execution_id, fence=task.fence, result=b""))
        await store.apply(Replay(execution_id=task.execution_id, from_step=f"s{STEPS - 1}"))
        assert (await store.read(GetExecution(execution_id=task.execution_id))).step_count == STEPS - 1
    finally:
        await store.close()


def ask(server: Process, base: str) -> None:
    server.wait_until_ready()
    status, _ = server.call("GET", base)
    assert status == 200
    with attacked(server) as attack:
        for _ in range(3):
            status, answer = server.call("GET", f"{base}/steps?limit=1")
            assert (status, len(answer["steps"])) == (200, 1)
            status, answer = server.call("GET", f"{base}/detail")
            assert (status, len(answer["steps"]), answer["steps"][0]["size"]) == (200, STEPS, MIB)
        status, answer = server.call("GET", f"{base}/steps")
        assert (status, len(answer["steps"])) == (200, STEPS)
        assert [step["name"] for step in answer["steps"] if "result" in step] == ["s0", "s1", "s2", "s3"]
        attack.endure(0.5)
    attack.check()


async def test_detail_shows_the_newest_results_of_attempts_as_far_as_they_fit(serve: Serve) -> None:
    api = await serve()
    driver = Driver(api.server.store, ManualClock())
    task = await driver.running()
    for round_ in range(6):
        if round_:
            await driver.store.apply(Replay(execution_id=task.execution_id))
            task = await driver.claim_one()
        result = b'"' + str(round_).encode() + b"x" * (MIB - 3) + b'"'
        await driver.store.apply(
            Complete(execution_id=task.execution_id, fence=task.fence, result=result, result_encoding="json")
        )
    detail = (await api.get(f"/v1/executions/{quote(task.execution_id)}/detail")).json
    shown = [attempt.get("result", "-")[0] for attempt in detail["attempts"]]
    assert shown == ["-", "-", "2", "3", "4", "5"]
