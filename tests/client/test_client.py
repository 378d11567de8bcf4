"""What a client has besides the boundary: batches, long waits, wake-ups over restarts, rights."""

from __future__ import annotations

import asyncio

import pytest

from flowfabric import open_store
from flowfabric.client import HttpClient
from flowfabric.client import batches as batching
from flowfabric.client import client as client_module
from flowfabric.client.transport import HttpReply, HttpRequest
from flowfabric.engine import claim_when_ready, tail_when_ready, wait_until_ended
from flowfabric.model.errors import FlowFabricError, Unauthorized
from flowfabric.model.ids import Partitions, spread
from flowfabric.model.operations.access import CreateToken
from flowfabric.model.operations.claim import Claim
from flowfabric.model.operations.create import Created, CreateExecution
from flowfabric.model.operations.finish import Complete
from flowfabric.model.operations.lease import ListLeases, Renew, Renewed
from flowfabric.model.operations.operate import Pause
from flowfabric.model.operations.read import Describe, GetPayload, GetResult
from flowfabric.model.operations.read_list import ListExecutions, ReadFeed
from flowfabric.model.operations.stream import TailStream
from flowfabric.model.operations.suspend_waitpoint import ReadToken
from flowfabric.model.operations.worker import ListWorkers, Marked, MarkWorkerDead
from flowfabric.server.access.auth import digest
from flowfabric.storage.base import Waits
from flowfabric.storage.sqlite import SqliteStore
from flowfabric.testing.servers import free_port
from support.driver import Driver, new_uuid
from support.expect import refused
from support.frames import append, payloads
from support.over_http import OverHttp, served
from support.stub import QUICK

LONG = 60_000


def claim(namespace: str = "") -> Claim:
    return Claim(
        worker_id="w1", worker_instance_id="w1-a", lanes=("default",), mint=new_uuid(), namespace=namespace
    )


async def test_open_store_opens_a_server() -> None:
    store = await SqliteStore.open(":memory:", partitions=Partitions(flow=16, budget=3, quota=5))
    async with served(store) as url:
        client = await open_store(url)
        assert isinstance(client, HttpClient)
        assert isinstance(client, Waits)
        assert client.partitions == Partitions(flow=16, budget=3, quota=5)
        await client.close()
        with refused("store_closed"):
            await client.read(ListWorkers())
    await store.close()


async def test_many_submissions_are_few_calls(
    ff: Driver, side: OverHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    send = side.client._transport.send

    async def note(request: HttpRequest) -> HttpReply:
        sent.append(request.path)
        return await send(request)

    monkeypatch.setattr(side.client._transport, "send", note)
    many = [CreateExecution(execution_id=ff.new_id(), execution_kind="job") for _ in range(1_500)]
    assert all(isinstance(each, Created) for each in await side.client.apply_many(many))
    assert sent == ["/v1/submit/batch"] * 2
    sent.clear()
    tasks = await ff.claim(max_tasks=10)
    renewals = [Renew(execution_id=task.execution_id, fence=task.fence) for task in tasks]
    renewals.append(Renew(execution_id=tasks[0].execution_id, fence=Driver.stale(tasks[0])))
    *renewed, stale = await side.client.apply_many(renewals[1:])
    assert all(isinstance(each, Renewed) for each in renewed)
    assert isinstance(stale, FlowFabricError)
    assert stale.code == "stale_lease"
    assert sent == ["/v1/workers/w1/tasks", "/v1/workers/client/renew"]


async def test_large_batches_are_cut_and_bytes_stay_bytes(ff: Driver, side: OverHttp) -> None:
    data = bytes(range(256)) * 4_000
    many = [
        CreateExecution(execution_id=ff.new_id(), execution_kind="job", input_payload=data) for _ in range(20)
    ]
    parts = [batch for batch in batching.split(list(enumerate(many))) if batch.send is not None]
    assert len(parts) > 1
    assert all(isinstance(each, Created) for each in await side.client.apply_many(many))
    for command in many:
        assert (await side.client.read(GetPayload(execution_id=command.execution_id))).input == data


@pytest.mark.parametrize("encoding", ["", "json", "raw"])
@pytest.mark.parametrize(
    "data",
    [b"", b"null", b" 1 ", b'{"a" : 1}', b"\x00\xff", b"nope", b'"\xed\xa0\x80"', "é".encode(), b"[1]\n"],
)
async def test_inputs_and_results_survive_exactly(ff: Driver, data: bytes, encoding: str) -> None:
    task = await ff.running(input_payload=data, payload_encoding=encoding)
    assert (task.input, task.payload_encoding) == (data, encoding)
    await ff.complete(task, data, result_encoding=encoding)
    result = (await ff.store.read(GetResult(execution_id=task.execution_id))).result
    assert result is not None
    assert (result.data, result.encoding) == (data, encoding)


async def test_waiting_happens_in_the_server(
    ff: Driver, side: OverHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(_: object) -> object:
        raise AssertionError("the client must not listen itself")

    monkeypatch.setattr(side.client, "subscribe", nobody)
    waiting = asyncio.create_task(claim_when_ready(side.client, claim(), LONG))
    execution_id = await ff.create()
    (task,) = (await waiting).tasks
    assert task.execution_id == execution_id
    question = TailStream(execution_id=execution_id, attempt_index=0)
    tailing = asyncio.create_task(tail_when_ready(side.client, question, LONG))
    await append(ff, task, b"\xff")
    assert payloads(await tailing) == [b"\xff"]
    ending = asyncio.create_task(wait_until_ended(side.client, execution_id, LONG))
    await ff.complete(task)
    assert (await ending).public_state == "completed"
    assert (await claim_when_ready(side.client, claim(), 1)).tasks == ()


async def test_a_claimer_that_goes_away_leaves_no_lease(
    ff: Driver, side: OverHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution_id = await ff.create()
    send, answered = side.client._transport.send, asyncio.Event()

    async def too_late(request: HttpRequest) -> HttpReply:
        await send(request)
        monkeypatch.setattr(side.client._transport, "send", send)
        answered.set()
        raise asyncio.CancelledError  # between the answer and whoever asked

    monkeypatch.setattr(side.client._transport, "send", too_late)
    with pytest.raises(asyncio.CancelledError):
        await claim_when_ready(side.client, claim(), LONG)
    await answered.wait()
    await asyncio.gather(*side.client._background)
    assert (await ff.events(execution_id))[-2:] == ["claimed", "released"]


async def test_a_wait_that_nobody_wants_any_more_takes_nothing(ff: Driver, side: OverHttp) -> None:
    async with side.behind.subscribe(["lane:other"]) as reached:
        waiting = asyncio.create_task(claim_when_ready(side.client, claim(), LONG))
        while not await side.behind.read(ListWorkers()):  # the claim itself is the sign that it arrived
            await reached.wait(0.001)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await asyncio.gather(*side.client._background)
    execution_id = await ff.create()
    assert (await ff.claim_one()).execution_id == execution_id


async def test_the_dead_lose_their_leases_at_once(ff: Driver, side: OverHttp) -> None:
    task = await ff.running()
    assert await ff.store.apply(MarkWorkerDead(worker_instance_id="w1-a")) == Marked()
    assert await ff.store.read(ListLeases(worker_instance_id="w1-a")) == ()
    again = await ff.claim_one(worker_instance_id="w1-b")
    assert (again.execution_id, again.attempt_type) == (task.execution_id, "reclaim")


async def test_listeners_share_one_stream(ff: Driver, side: OverHttp) -> None:
    client = side.client
    async with client.subscribe(["lane:a"]) as a, client.subscribe(["lane:b", "feed"]) as b:
        async with client.subscribe(["lane:a"]):
            assert client._wakeups.streams == 1
        await ff.create(lane_id="a")
        assert await a.wait(10)
        assert await b.wait(10)
    async with client.subscribe([f"execution:{ff.new_id()}" for _ in range(1_100)]):
        assert client._wakeups.streams >= 3


async def test_wake_ups_survive_a_restart_of_the_server() -> None:
    store = await SqliteStore.open(":memory:")
    port = free_port()
    async with served(store, port=port) as url:
        client = await HttpClient.open(url, limits=QUICK)
        subscription = client.subscribe(["lane:default"])
        woken = await subscription.__aenter__()
    # Nobody serves now: what happens is told afterwards.
    async with served(store, port=port):
        await store.apply(CreateExecution(execution_id=store_id(store), execution_kind="job"))
        assert await woken.wait(20)
        while await woken.wait(0.05):  # the break itself wakes, once or twice
            pass
        await store.apply(CreateExecution(execution_id=store_id(store), execution_kind="job"))
        assert await woken.wait(20)
        await subscription.__aexit__(None, None, None)
        await client.close()
    await store.close()


def store_id(store: SqliteStore) -> str:
    return spread(new_uuid(), store.partitions)


async def test_rights_hold_for_records_too(ff: Driver) -> None:
    store = await SqliteStore.open(":memory:")
    for role, namespace in (("reader", "one"), ("worker", ""), ("operator", "")):
        await store.apply(
            CreateToken(
                token_id=new_uuid(), name=role, role=role, digest=digest(role.encode()), namespace=namespace
            )
        )
    async with served(store, api_token="admin") as url:
        admin = await HttpClient.open(url, token="admin")
        ids = {}
        for namespace in ("one", "two"):
            command = CreateExecution(
                execution_id=store_id(store), execution_kind="job", namespace=namespace, actor="carol"
            )
            await admin.apply(command)
            ids[namespace] = command.execution_id
        bound = await HttpClient.open(url, token="reader")
        assert {run.namespace for run in (await bound.read(ListExecutions())).runs} == {"one"}
        assert {entry.namespace for entry in (await bound.read(ReadFeed())).entries} == {"one"}
        assert {entry.event.actor for entry in (await admin.read(ReadFeed())).entries} == {"carol"}
        with refused("execution_not_found"):
            await bound.read(Describe(execution_id=ids["two"]))
        with pytest.raises(Unauthorized):
            await bound.apply(claim())
        worker = await HttpClient.open(url, token="worker")
        (task,) = (await worker.apply(claim(namespace="one"))).tasks
        with pytest.raises(Unauthorized):  # a worker is no operator, whatever it says
            await worker.apply(Complete(execution_id=task.execution_id, source="operator_override"))
        with pytest.raises(Unauthorized):
            await worker.read(ReadToken(execution_id=task.execution_id, waitpoint_id=new_uuid()))
        operator = await HttpClient.open(url, token="operator")
        await operator.apply(Pause(execution_id=ids["two"], actor="mallory"))
        feed = (await admin.read(ReadFeed())).entries
        assert feed[-1].event.actor == "operator"  # only an administrator speaks for others
        for client in (admin, bound, worker, operator):
            await client.close()
    await store.close()


async def test_commands_on_one_execution_keep_their_order(ff: Driver) -> None:
    assert client_module.AT_ONCE > 1
    task = await ff.running()
    renew = Renew(execution_id=task.execution_id, fence=task.fence, lease_ttl_ms=5_000)
    longer = Renew(execution_id=task.execution_id, fence=task.fence, lease_ttl_ms=9_000)
    assert await ff.store.apply_many([renew, longer]) == [Renewed(ff.now + 5_000), Renewed(ff.now + 9_000)]
