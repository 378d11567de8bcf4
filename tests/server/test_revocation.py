"""A token that is deleted or expires takes with it what lasts in its name: streams, wake-ups and long polls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from flowfabric.server.access import auth, revocation
from flowfabric.storage import open_store
from support.server import Api
from support.serving import Backend, Serve
from support.until import until
from support.work import claim, create, path

ADMIN = "the-administrator"
SOON = 8.0
"""Longer than the two seconds, for a machine that is busy; the next test holds the two seconds."""

End = Callable[[], Awaitable[None]]


def test_it_takes_less_than_two_seconds() -> None:
    assert auth.CACHE_SECONDS + revocation.LOOK_SECONDS < 1.5


@pytest.fixture
async def door(serve: Serve, backend: Backend) -> AsyncIterator[Api]:
    """A server that wants a token, on the first store of the test."""
    store = await open_store(backend.url())
    yield await serve(token=ADMIN, api_token=ADMIN, store=store)
    await store.close()


async def make(api: Api, **more: Any) -> dict[str, Any]:
    reply = await api.post("/v1/admin/tokens", {"name": "n", "role": "worker", **more})
    assert reply.status == 201, reply
    return dict(reply.json)


async def open_all(api: Api, token: str, execution_id: str) -> list[asyncio.Task[tuple[int, bytes]]]:
    """Begin everything that lasts; each task returns the status and all that was sent until the end."""
    asked: list[tuple[str, str, Any]] = [
        ("GET", "/v1/feed", None),
        ("GET", path(execution_id, "events"), None),
        ("POST", "/v1/wakeups", {"topics": ["feed", "lane:poll"]}),
        ("GET", path(execution_id, "wait") + "?timeout_ms=30000", None),
        ("GET", path(execution_id, "attempts", "0", "stream", "tail") + "?block_ms=30000", None),
        (
            "POST",
            "/v1/workers/w/tasks",
            {"worker_instance_id": "w-9", "lanes": ["poll"], "wait_ms": 30_000},
        ),
    ]

    async def ask(method: str, where: str, body: Any) -> tuple[int, bytes]:
        reply = await api.call(method, where, body, headers={"Authorization": f"Bearer {token}"})
        return reply.status, reply.raw

    tasks = [asyncio.create_task(ask(*each)) for each in asked]
    lasting = api.server.revocation._lasting
    await until(lambda: sum(len(ends) for ends in lasting.values()) == len(asked))
    return tasks


async def check_ended(api: Api, tasks: list[asyncio.Task[tuple[int, bytes]]]) -> None:
    async with asyncio.timeout(SOON):
        replies = await asyncio.gather(*tasks)
    assert [status for status, _ in replies] == [200, 200, 200, 401, 401, 401]
    assert all(b"unauthorized" in raw for status, raw in replies if status == 401)
    assert api.server.live.open == 0
    late = await create(api, lane_id="poll")
    assert all(late.encode() not in raw for _, raw in replies)
    reply = await api.get(path(late, "state"))
    assert reply.json == "waiting"
    assert not api.server.revocation._lasting
    assert api.server.revocation._looking is None


async def test_what_lasts_ends_when_the_token_is_deleted(door: Api) -> None:
    made = await make(door)
    await create(door)
    task = await claim(door)
    tasks = await open_all(door, made["token"], task["execution_id"])
    await door.delete(f"/v1/admin/tokens/{made['token_id']}")
    await check_ended(door, tasks)


async def test_what_lasts_ends_when_another_server_deletes_the_token(
    door: Api, serve: Serve, backend: Backend
) -> None:
    store = await open_store(backend.url())
    other = await serve(token=ADMIN, api_token=ADMIN, store=store)
    made = await make(door)
    await create(door)
    task = await claim(door)
    tasks = await open_all(door, made["token"], task["execution_id"])
    await other.delete(f"/v1/admin/tokens/{made['token_id']}")
    await check_ended(door, tasks)
    await store.close()


async def test_what_lasts_ends_when_the_token_expires(door: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    expires_at = door.store.now() + 60_000
    made = await make(door, expires_at=expires_at)
    await create(door)
    task = await claim(door, lease_ttl_ms=300_000)
    tasks = await open_all(door, made["token"], task["execution_id"])
    monkeypatch.setattr(door.store, "_clock", lambda: expires_at)
    await check_ended(door, tasks)


async def test_others_go_on(door: Api) -> None:
    gone, kept = await make(door), await make(door)
    await create(door)
    execution_id = (await claim(door))["execution_id"]
    ended = await open_all(door, gone["token"], execution_id)
    lasting = door.server.revocation._lasting
    headers = {"Authorization": f"Bearer {kept['token']}"}
    body = {"worker_instance_id": "w-8", "lanes": ["kept"], "wait_ms": 30_000}
    waiting = asyncio.create_task(door.call("POST", "/v1/workers/w/tasks", body, headers=headers))
    await until(lambda: len(lasting) == 2)
    await door.delete(f"/v1/admin/tokens/{gone['token_id']}")
    async with asyncio.timeout(SOON):
        await asyncio.gather(*ended)
        late = await create(door, lane_id="kept")
        reply = await waiting
    assert [task["execution_id"] for task in reply.json["tasks"]] == [late]


async def test_a_claim_that_comes_too_late_is_given_back(door: Api) -> None:
    made = await make(door)
    await create(door)
    tasks = await open_all(door, made["token"], (await claim(door))["execution_id"])
    await door.delete(f"/v1/admin/tokens/{made['token_id']}")
    late = await create(door, lane_id="poll")
    async with asyncio.timeout(SOON):
        status, raw = await tasks[-1]
        await asyncio.gather(*tasks)
    if status == 401:
        assert (await claim(door, lane="poll", wait_ms=5_000))["execution_id"] == late
    else:
        assert late.encode() in raw  # it was claimed before the deletion was noticed
