"""Being woken over HTTP: what a stream costs, and how many there may be."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from flowfabric.server.live import feed as live
from flowfabric.wire.rights import Role
from support.attack import GIVE_UP_SECONDS, attacked, request, unread
from support.process import started
from support.server import Api
from support.serving import Backend, Serve
from support.sse import Feed
from support.until import until
from support.work import bind, claim, create, path

ADMIN = "the-administrator"


@asynccontextmanager
async def listening(api: Api, *topics: str, token: str = "") -> AsyncIterator[Feed]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with api.session.post(
        f"{api.base}/v1/wakeups", json={"topics": topics}, headers=headers
    ) as response:
        assert response.status == 200, await response.text()
        feed = Feed(response)
        (first,) = await feed.take(1)
        assert (first.event, first.data) == ("listening", {"topics": len(topics)})
        yield feed


async def test_one_stream_tells_which_topics_it_were(api: Api) -> None:
    execution_id = await create(api)
    async with listening(api, "lane:a", "lane:b", f"execution:{execution_id}", "worker:w") as feed:
        await create(api, lane_id="b")
        assert (await feed.take(1))[0].data == {"topics": ["lane:b"]}
        await api.put(f"/v1/executions/{execution_id}/priority", {"new_priority": 7})
        assert (await feed.take(1))[0].data == {"topics": [f"execution:{execution_id}"]}


async def test_a_bound_token_is_woken_by_its_own_namespace_only(api: Api) -> None:
    theirs = await claim(api, lane=(await _work(api, "theirs"))[0], worker="w")
    mine = await claim(api, lane=(await _work(api, "mine"))[0], worker="w")
    bind(api, "mine", Role.WORKER)
    async with listening(api, "lane:theirs", "lane:mine", "lane:both", "feed", "worker:w-1") as feed:
        bind(api, "", Role.ADMIN)
        await create(api, lane_id="both", namespace="theirs")
        await api.post(path(theirs["execution_id"], "revoke-lease"))
        await create(api, lane_id="both", namespace="mine")
        (first,) = await feed.take(1)
        assert set(first.data["topics"]) <= {"lane:both", "feed"}
        await api.post(path(mine["execution_id"], "revoke-lease"))
        woken: set[str] = set(first.data["topics"])
        while "worker:w-1" not in woken:
            woken |= set((await feed.take(1))[0].data["topics"])
        assert woken <= {"lane:both", "lane:mine", "feed", "worker:w-1"}


async def _work(api: Api, namespace: str) -> tuple[str, str]:
    return namespace, await create(api, lane_id=namespace, namespace=namespace)


async def test_the_number_of_topics_costs_no_tasks(api: Api) -> None:
    async def tasks(*topics: str) -> int:
        before = len(asyncio.all_tasks())
        async with listening(api, *topics):
            return len(asyncio.all_tasks()) - before

    await tasks("feed")
    assert await tasks("feed") == await tasks(*(f"lane:l{n}" for n in range(500)))
    await until(lambda: not api.server.live.open)


async def make(api: Api, name: str) -> str:
    reply = await api.post("/v1/admin/tokens", {"name": name, "role": "reader"})
    token: str = reply.json["token"]
    return token


async def test_a_token_has_so_many_streams_and_others_theirs(serve: Serve) -> None:
    api = await serve(token=ADMIN, api_token=ADMIN)
    api.server.live.limit_of_token, api.server.live.limit = 2, 4
    one, other = await make(api, "one"), await make(api, "one")
    async with AsyncExitStack() as stack:
        for token in (one, one, other):
            await stack.enter_async_context(listening(api, "feed", token=token))
        reply = await _ask(api, one)
        assert (reply.status, reply.json["code"], reply.json["retryable"]) == (
            429,
            "resource_exhausted",
            True,
        )
        assert "max for one token: 2" in reply.json["error"]
        assert "retry-after" in reply.headers
        await stack.enter_async_context(listening(api, "feed", token=other))
        assert "server max: 4" in (await _ask(api, ADMIN)).json["error"]
    await until(lambda: not api.server.live.open)
    async with listening(api, "feed", token=one):
        pass


async def _ask(api: Api, token: str, *topics: str) -> Any:
    headers = {"Authorization": f"Bearer {token}"}
    return await api.call("POST", "/v1/wakeups", {"topics": topics or ("feed",)}, headers=headers)


async def test_topics_are_counted_too(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_TOPICS_OF_TOKEN", 5)
    async with listening(api, "lane:a", "lane:b", "lane:c"):
        reply = await api.post("/v1/wakeups", {"topics": ["lane:d", "lane:e", "lane:f"]})
        assert (reply.status, reply.json["code"]) == (429, "resource_exhausted")
        async with listening(api, "lane:d", "lane:e"):
            pass


async def test_what_is_refused_takes_no_place(api: Api) -> None:
    for _ in range(3):
        assert (await api.post("/v1/wakeups", {"topics": ["nonsense"]})).status == 400
    assert api.server.live.open == 0


@pytest.mark.parametrize("count", [100, 800])
def test_many_streams_of_many_topics_cost_little(tmp_path: Path, backend: Backend, count: int) -> None:
    with started(tmp_path, *backend.flags) as server:
        server.wait_until_ready()
        topics = [[f"lane:{n}-{m}" for m in range(500)] for n in range(count)]
        messages = [request("POST", "/v1/wakeups", {"topics": each}) for each in topics]
        with attacked(server) as attack:
            with ExitStack() as stack:
                answers: Counter[bytes] = Counter()
                for message in messages:
                    (opened,) = stack.enter_context(unread(server, message, 1))
                    opened.settimeout(GIVE_UP_SECONDS)
                    answers[opened.recv(12)] += 1
                assert answers[b"HTTP/1.1 200"] >= 100
                assert answers.total() - answers[b"HTTP/1.1 200"] == answers[b"HTTP/1.1 429"]
                attack.endure(0.5)
            attack.endure(0.5)  # they have all gone at once
        attack.check()
