"""Repeats: where the error says so and where they are safe, and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from flowfabric.client import HttpClient, Limits
from flowfabric.model.errors import FlowFabricError, ResourceExhausted, StoreBusy, Unreachable
from flowfabric.model.operations.claim import Claim
from flowfabric.model.operations.create import Created, CreateExecution, Duplicate
from flowfabric.model.operations.finish import Complete, Completed
from flowfabric.model.operations.lane import ListLanes
from flowfabric.model.operations.stream import AppendFrames, FrameInput
from support.driver import Driver, new_uuid
from support.frames import payloads, read
from support.over_http import OverHttp
from support.stub import QUICK, Line, Stub, line_to, refusal, stubbed


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    async with stubbed() as found:
        yield found


@pytest.fixture
async def client(stub: Stub) -> AsyncIterator[HttpClient]:
    async with await HttpClient.open(stub.url, limits=QUICK) as found:
        yield found


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the client would have slept."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("flowfabric.client.transport.asyncio.sleep", sleep)
    return slept


def busy(**headers: str) -> web.Response:
    return refusal(503, "store_busy", retryable=True, **headers)


def none() -> web.Response:
    return web.json_response([])


async def test_a_busy_server_is_asked_again(client: HttpClient, stub: Stub) -> None:
    stub.answers = [busy(), refusal(429, "resource_exhausted", retryable=True), none()]
    assert await client.read(ListLanes()) == ()
    assert len(stub.asked) == 3


async def test_pauses_grow_and_differ(stub: Stub, pauses: list[float]) -> None:
    limits = Limits(first_pause_seconds=1.0, longest_pause_seconds=4.0, tries=6)
    async with await HttpClient.open(
        stub.url, limits=limits, chance=iter([0.0, 1.0, 0.5, 0.0, 1.0]).__next__
    ) as ff:
        stub.answers = [busy() for _ in range(6)]
        with pytest.raises(StoreBusy):
            await ff.read(ListLanes())
    assert pauses == [0.5, 2.0, 3.0, 2.0, 4.0]
    assert len(stub.asked) == 6


async def test_the_server_says_how_long_to_wait(client: HttpClient, stub: Stub, pauses: list[float]) -> None:
    stub.answers = [busy(Retry_After="7"), none()]
    await client.read(ListLanes())
    assert pauses == [7.0]


async def test_a_pause_that_is_too_long_is_the_callers(client: HttpClient, stub: Stub) -> None:
    stub.answers = [refusal(429, "resource_exhausted", retryable=True, Retry_After="3600")]
    with pytest.raises(ResourceExhausted):
        await client.read(ListLanes())


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [
        (409, "lease_conflict", True),
        (400, "invalid_input", False),
        (500, "internal_error", False),
        (503, "hmac_secret_not_initialized", False),
        (404, "execution_not_found", False),
    ],
)
async def test_other_refusals_are_the_callers(
    client: HttpClient, stub: Stub, status: int, code: str, retryable: bool
) -> None:
    stub.answers = [refusal(status, code, retryable=retryable)]
    with pytest.raises(FlowFabricError) as caught:
        await client.read(ListLanes())
    assert caught.value.code == code
    assert len(stub.asked) == 1


async def lost(request: web.Request) -> Any:
    """Take the request and say nothing."""
    assert request.transport is not None
    request.transport.close()
    return web.Response()


def frames() -> AppendFrames:
    return AppendFrames(
        execution_id="{fp:1}:00000000-0000-4000-8000-000000000001", frames=(FrameInput(b"x"),)
    )


async def test_a_lost_answer_to_what_is_not_safe_is_told(client: HttpClient, stub: Stub) -> None:
    stub.answers = [lost]
    with pytest.raises(Unreachable, match="may have been done"):
        await client.apply(frames())
    assert len(stub.asked) == 1
    stub.answers = [web.Response(status=502), web.json_response({"Appended": []})]
    with pytest.raises(Unreachable):
        await client.apply(frames())
    stub.answers = [busy(), web.json_response({"Appended": []})]  # it says itself that nothing was done
    assert await client.apply(frames()) == ()


async def test_time_limits(stub: Stub) -> None:
    never = asyncio.Event()

    async def silent(_: web.Request) -> Any:
        await never.wait()

    async with await HttpClient.open(stub.url, limits=Limits(request_seconds=0.05, tries=2)) as client:
        stub.answers = [silent, none()]
        assert await client.read(ListLanes()) == ()  # a read is asked again
        stub.answers = [silent]
        with pytest.raises(Unreachable, match="time was over"):
            await client.apply(frames())
        assert len(stub.asked) == 3
    never.set()


async def test_nobody_there() -> None:
    async with stubbed() as stub:
        url = stub.url
    with pytest.raises(Unreachable):
        await HttpClient.open(url, limits=QUICK)


async def test_no_more_connections_than_allowed(stub: Stub) -> None:
    now, most = 0, 0
    together = asyncio.Event()

    async def count(_: web.Request) -> web.Response:
        nonlocal now, most
        now += 1
        most = max(most, now)
        if now == 3:
            together.set()
        await together.wait()
        for _turn in range(5):
            await asyncio.sleep(0)
        now -= 1
        return none()

    async with await HttpClient.open(stub.url, limits=Limits(connections=3)) as client:
        stub.answers = [count] * 20
        await asyncio.gather(*(client.read(ListLanes()) for _ in range(20)))
    assert most == 3


@pytest.fixture
async def line(side: OverHttp) -> AsyncIterator[Line]:
    async with line_to(side.client._address.base) as found:
        yield found


@pytest.mark.parametrize("after", [0, 10, 200])
async def test_a_claim_whose_answer_was_cut_gets_the_same_task(ff: Driver, line: Line, after: int) -> None:
    ids = {await ff.create(), await ff.create()}
    async with await HttpClient.open(line.url, limits=QUICK) as client:
        line.cut_after = after
        claim = Claim(worker_id="w", worker_instance_id="w-1", lanes=("default",), mint=new_uuid())
        (task,) = (await client.apply(claim)).tasks
        assert line.cuts == 1
        line.cut_after = after
        done = Complete(execution_id=task.execution_id, fence=task.fence, result=b"\x00")
        assert await client.apply(done) == Completed(
            task.execution_id, (await ff.show(task.execution_id)).public_state
        )
        assert line.cuts == 2
    events = [await ff.events(each) for each in ids]
    assert sorted(map(len, events)) == [
        1,
        3,
    ]  # one was never touched; the other was claimed and completed once


async def test_a_submit_whose_answer_was_cut_is_not_done_twice(ff: Driver, line: Line) -> None:
    async with await HttpClient.open(line.url, limits=QUICK) as client:
        line.cut_after = 5
        command = CreateExecution(execution_id=ff.new_id(), execution_kind="job")
        answer = await client.apply(command)
        assert isinstance(answer, Duplicate)
        assert answer.execution_id == command.execution_id
        line.cut_after = 5
        many = [CreateExecution(execution_id=ff.new_id(), execution_kind="job") for _ in range(5)]
        assert {type(each) for each in await client.apply_many(many)} == {Duplicate}
        assert isinstance(
            await client.apply(CreateExecution(execution_id=ff.new_id(), execution_kind="job")), Created
        )
    assert len(await ff.claim(max_tasks=100)) == 7


async def test_frames_whose_answer_was_cut_are_appended_once(ff: Driver, line: Line) -> None:
    task = await ff.running()
    async with await HttpClient.open(line.url, limits=QUICK) as client:
        line.cut_after = 5
        send = AppendFrames(execution_id=task.execution_id, fence=task.fence, frames=(FrameInput(b"one"),))
        with pytest.raises(Unreachable):
            await client.apply(send)
    assert payloads(await read(ff, task)) == [b"one"]
