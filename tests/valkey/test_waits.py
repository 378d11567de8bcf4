"""Waits on Valkey against the machine in Python: the same tokens, the same answers, the same documents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from flowfabric.model.command import Command
from flowfabric.model.conditions import list_condition
from flowfabric.model.limits import MAX_SIGNAL_BYTES
from flowfabric.model.operations.access_secret import RotateSecret
from flowfabric.model.operations.finish import Complete
from flowfabric.model.operations.step import PutStep
from flowfabric.model.operations.suspend import SatisfiedAtOnce, Suspended
from flowfabric.model.operations.suspend_waitpoint import CloseWaitpoint
from flowfabric.model.tokens import KeyRing, mint
from flowfabric.model.wait_result import unpack_wait
from flowfabric.storage.memory import MemoryStore
from flowfabric.storage.valkey import ValkeyStore, keys
from support.clock import ManualClock
from support.driver import Driver, new_uuid
from support.valkey import ValkeyServer
from support.waiting import delivery, opening, pending, suspend, suspension, tree

BINARY = bytes(range(256))
PAYLOADS = [
    b"",
    b'{"a": 1}',
    BINARY,
    b'\x00\x1f"\\/\x7f',
    "\N{SNOWMAN}\N{GRINNING FACE}".encode(),
    b"\xed\xa0\x80",
]


class Both(Driver):
    """Sends every command to both stores, and answers when they agree."""

    def __init__(self, store: ValkeyStore, machine: MemoryStore, clock: ManualClock) -> None:
        super().__init__(store, clock)
        self.valkey = store
        self.machine = machine

    async def agree(self, command: Command[Any]) -> Any:
        answer = await self.valkey.apply(command)
        assert answer == await self.machine.apply(command)
        assert await self.valkey.dump() == await self.machine.dump()
        return answer


class _Mirrored:
    """Stands for the store in a driver whose short names are to reach both."""

    def __init__(self, both: Both) -> None:
        self.apply = both.agree
        self.dump = both.valkey.dump
        self.partitions = both.valkey.partitions


@pytest.fixture
async def ff(server: ValkeyServer) -> AsyncIterator[Both]:
    clock = ManualClock()
    store = await ValkeyStore.open(server.url, clock=clock)
    machine = MemoryStore(clock=clock)
    both = Both(store, machine, clock)
    both.store = _Mirrored(both)  # type: ignore[assignment]
    await both.seed()
    yield both
    await store.close()
    await machine.close()


async def ring(ff: Both) -> KeyRing:
    (found,) = (await ff.valkey.dump()).records["keyring"].values()
    assert isinstance(found, KeyRing)
    return found


@pytest.mark.parametrize("secret_bytes", [32, 1, 63, 64, 65, 200])
async def test_tokens_are_those_of_the_machine(ff: Both, secret_bytes: int) -> None:
    secret = bytes(range(secret_bytes)).hex()
    await ff.agree(RotateSecret(new_kid="k2", new_secret_hex=secret, grace_ms=0))
    task, keyring = await ff.running(), await ring(ff)
    for length in (1, 17, 18, 19, 20, 80, 81, 82, 83, 84, 256):  # around the ends of blocks
        command = opening(task, "k" * length)
        token = (await ff.agree(command)).waitpoint.waitpoint_token
        at = (task.execution_id, command.waitpoint_id, command.waitpoint_key, ff.now)
        assert token == mint(keyring, *at)
        await ff.agree(CloseWaitpoint(execution_id=task.execution_id, waitpoint_id=command.waitpoint_id))


async def test_no_secret_is_kept_anywhere_but_in_the_ring(ff: Both) -> None:
    secret = "ab" * 32
    await ff.agree(RotateSecret(new_kid="k2", new_secret_hex=secret, grace_ms=0))
    wait = await suspend(ff, await ff.running())
    await wait.signal()
    for name in await ff.valkey.client.call("KEYS", "*"):
        if name.decode() != keys.SINGLE + keys.KEYRING:
            assert secret.encode() not in await ff.valkey.client.call("DUMP", name), name


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
async def test_the_step_of_a_wait_is_the_document_of_the_machine(ff: Both, payload: bytes) -> None:
    wait = await suspend(ff, await ff.running(), step_name="answer")
    await wait.signal(payload=payload, source_identity='"who"\n')
    task = await ff.claim_one()
    (step,) = task.steps
    (signal,) = unpack_wait(step.result).signals
    assert (signal.data(), signal.source_identity) == (payload, '"who"\n')
    again = PutStep(execution_id=task.execution_id, fence=task.fence, step_name="answer", result=b"other")
    assert (await ff.agree(again)).result == step.result
    await ff.agree(Complete(execution_id=task.execution_id, fence=task.fence))


async def test_many_signals_make_one_document(ff: Both) -> None:
    condition = list_condition(("go",) * 20, "all")
    wait = await suspend(ff, await ff.running(), condition, step_name="answers")
    for _ in range(20):
        await wait.signal(payload=b"x" * 300)
    (step,) = (await ff.claim_one()).steps
    assert len(unpack_wait(step.result).signals) == 20


async def test_documents_fill_a_task_as_far_as_they_fit(ff: Both) -> None:
    task, shown = await ff.running(), []
    for number in range(6):
        wait = await suspend(ff, task, step_name=f"answer {number}")
        await wait.signal(payload=b"\xff" * (MAX_SIGNAL_BYTES - 4_000), idempotency_key="k" * 256)
        task = await ff.claim_one()
        shown.append(len(task.steps))
    assert shown == [1, 2, 3, 3, 3, 3]


@pytest.mark.parametrize("payload", [b"", BINARY, b"x" * 300, b"x" * MAX_SIGNAL_BYTES], ids=len)
async def test_an_answer_is_remembered_as_the_machine_does(ff: Both, payload: bytes) -> None:
    task = await ff.running()
    opened = (await ff.agree(opening(task))).waitpoint
    await ff.agree(delivery(task.execution_id, opened, payload=payload))
    command = suspension(task, waitpoints=pending(opened), idempotency_key="once", step_name="answer")
    first = await ff.agree(command)
    assert isinstance(first, SatisfiedAtOnce)
    assert first.resume_signals[0].payload == payload
    assert await ff.agree(command) == first


async def test_an_answer_with_several_waitpoints_is_remembered(ff: Both) -> None:
    task = await ff.running()
    names = [f"k{number}" for number in range(17)]
    root = {"kind": "Count", "n": 2, "count_kind": "DistinctWaitpoints", "matcher": None, "waitpoints": names}
    command = suspension(task, tree(root), idempotency_key="once", suspension_id=new_uuid())
    first = await ff.agree(command)
    assert isinstance(first, Suspended)
    assert len(first.additional_waitpoints) == 16
    assert await ff.agree(command) == first
