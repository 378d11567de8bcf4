"""Commands of one group: each is decided in its place and with the chance that was drawn for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flowfabric.model.command import Command
from flowfabric.model.operations.access_secret import RotateSecret
from flowfabric.model.operations.claim import Claim
from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.operations.finish import Fail, RetryScheduled
from flowfabric.model.operations.operate import ChangePriority
from flowfabric.storage.base import Upkeep
from flowfabric.storage.memory import MemoryStore
from flowfabric.storage.valkey import ValkeyStore
from support.clock import ManualClock
from support.driver import Driver, new_uuid
from support.valkey import empty_server

JITTER = (
    b'{"retry_policy": {"max_retries": 9, "backoff": {"type": "fixed", "delay_ms": 1000, "jitter": true}}}'
)


def chances() -> Iterator[float]:
    for number in range(16):
        yield number / 16


async def _delay(store: Upkeep, clock: ManualClock) -> int:
    """Fail some work in a group, after a command that is decided outside the server, and say how long it waits."""
    name = Driver(store, clock).new_id()
    claim = Claim(worker_id="w", worker_instance_id="w-a", lanes=("default",), mint=new_uuid())
    await store.apply(CreateExecution(execution_id=name, execution_kind="job", policy=JITTER))
    (task,) = (await store.apply(claim)).tasks
    commands: list[Command[Any]] = [
        ChangePriority(execution_id=name, priority=1),
        RotateSecret(new_kid="k2", new_secret_hex="zz", grace_ms=0),
        Fail(execution_id=name, fence=task.fence, reason="no"),
    ]
    *_, answer = await store.apply_many(commands)
    assert isinstance(answer, RetryScheduled)
    return answer.delay_until - clock.now


async def test_every_command_has_its_own_chance() -> None:
    clock = ManualClock()
    here = MemoryStore(clock=clock, chance=chances().__next__)
    async with empty_server() as server:
        there = await ValkeyStore.open(server.url, clock=clock, chance=chances().__next__)
        assert await _delay(there, clock) == await _delay(here, clock) != 500
        await there.close()
