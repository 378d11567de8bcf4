"""Reads as records, and the routes that our own client uses: what is wrong is refused and named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowfabric.model.operations.lane import PauseLane
from flowfabric.model.operations.operate import Pause, Unpause
from flowfabric.model.operations.read import GetExecution
from flowfabric.wire.route import RECORD as MEDIA_TYPE
from support.server import Api
from support.sse import listen
from support.work import act, claim, create, path

ACCEPT = {"Accept": MEDIA_TYPE}


async def ask(api: Api, where: str, question: str, **query: Any) -> Any:
    return await api.call("GET", where, headers=ACCEPT, question=question, **query)


@pytest.mark.parametrize(
    "question",
    [
        "",
        "nope",
        "[1]",
        "{}",
        "1",
        '{"A":{}}',
        '{"Describe":1}',
        '{"Describe":{},"GetResult":{}}',
        '{"ReadHistory":{"after":"x"}}',
        '{"ReadHistory":{"limit":0}}',
        '{"ReadHistory":{"limit":null}}',
        '{"ReadHistory":{"after":' + "[" * 5_000,
        '{"ReadHistory":{"actor":"\\ud800"}}',
        '{"Complete":{}}',
    ],
)
async def test_bad_questions_are_refused(api: Api, question: str) -> None:
    execution_id = await create(api)
    reply = await ask(api, path(execution_id, "history"), question)
    assert (reply.status, reply.json["code"]) == (400, "invalid_input"), reply


async def test_what_the_path_says_counts(api: Api) -> None:
    execution_id, other = await create(api), await create(api)
    question = json.dumps({"Describe": {"execution_id": other}})
    reply = await ask(api, path(execution_id), question)
    assert (reply.status, reply.headers["content-type"]) == (200, MEDIA_TYPE)
    assert execution_id in reply.raw.decode()
    assert other not in reply.raw.decode()
    assert (await ask(api, path("nonsense"), question)).status == 400


async def test_routes_without_records_say_so(api: Api) -> None:
    assert (await ask(api, "/v1/admin/tokens", '{"ListLanes":{}}')).status == 406
    reply = await api.call("POST", "/v1/submit", {"kind": "k"}, headers=ACCEPT)
    assert (reply.status, reply.json["code"]) == (406, "not_acceptable")
    assert (await api.get("/v1/executions")).json["executions"] == []


async def test_limits_hold_for_records_too(api: Api) -> None:
    execution_id = await create(api)
    where = path(execution_id, "attempts/0/stream/tail")
    assert (await ask(api, where, '{"TailStream":{"count":1001}}')).status == 400
    assert (await ask(api, where, '{"TailStream":{}}', block_ms="30001")).status == 400
    assert (await ask(api, where, '{"TailStream":{}}', **{f"x{n}": "" for n in range(20)})).status == 400


async def test_a_grant_is_claimed_by_name(api: Api) -> None:
    execution_id = await create(api)
    worker = {"worker_id": "w", "worker_instance_id": "w-1"}
    lease = "5d0c2a52-5f0e-4c41-9a7d-2f1f6f1f9a10"
    claiming = worker | {"by": "grant", "lease_id": lease, "attempt_id": lease}
    reply = await api.post(path(execution_id, "claim"), claiming)
    assert (reply.status, reply.json["code"]) == (409, "invalid_claim_grant")
    granted = await api.post(path(execution_id, "grant"), worker | {"grant_ttl_ms": 5_000})
    assert granted.json["Granted"]["execution_id"] == execution_id
    claimed = (await api.post(path(execution_id, "claim"), claiming)).json["Claimed"]
    assert claimed["fence"]["lease_id"] == lease
    assert (await api.get("/v1/workers/w-1/leases")).json["executions"] == [execution_id]
    assert (await api.get(path(execution_id, "signals"))).json == {"signals": []}
    missing = await api.post(path(execution_id, "claim"), worker | {"by": "grant", "lease_id": lease})
    assert (missing.status, missing.json["field"]) == (422, "attempt_id")


async def test_a_waitpoint_is_closed(api: Api) -> None:
    await create(api)
    task = await claim(api)
    opened = (await act(api, task, "waitpoints", expires_in_ms=1_000))["Created"]["waitpoint_id"]
    where = path(task["execution_id"], "waitpoints", opened)
    assert (await api.delete(where)).json == {"Closed": {"already": False}}
    assert (await api.delete(where)).json == {"Closed": {"already": True}}


@pytest.mark.parametrize("topics", [[], ["due"], ["*"], ["lane:"], ["execution:x"], [""], ["a"] * 501, [1]])
async def test_bad_topics_are_refused(api: Api, topics: list[Any]) -> None:
    reply = await api.post("/v1/wakeups", {"topics": topics})
    assert reply.status in {400, 422}
    assert reply.json["field"].startswith("topics")


async def test_the_feed_is_a_stream_unless_records_are_asked_for(api: Api) -> None:
    async with listen(api, "/v1/feed") as feed:
        await create(api)
        assert (await feed.take(1))[0].event == "state"
    assert (await ask(api, "/v1/feed", '{"ReadFeed":{}}')).json["entries"]


async def test_histories_with_long_reasons_come_in_short_pages(api: Api) -> None:
    execution_id = await create(api)
    for _ in range(300):
        await api.store.apply(Pause(execution_id=execution_id, reason="r" * 4_096))
        await api.store.apply(Unpause(execution_id=execution_id))
    last = (await api.store.read(GetExecution(execution_id=execution_id))).event_count
    seen: list[int] = []
    cursor, pages = "", 0
    while cursor is not None:
        page = (await api.get(path(execution_id, "history"), limit=1_000, cursor=cursor)).json
        seen += [line["seq"] for line in page["events"]]
        cursor, pages = page["next_cursor"], pages + 1
    assert seen == list(range(1, last + 1))
    assert pages > 1
    for where, name, rows in (
        (path(execution_id, "history"), "ReadHistory", "events"),
        ("/v1/feed", "ReadFeed", "entries"),
    ):
        after = found = 0
        while True:
            reply = await ask(api, where, json.dumps({name: {"after": after, "limit": 1_000}}))
            assert len(reply.raw) < 1_200_000
            found += len(reply.json[rows])
            if not reply.json["next"] or reply.json["next"] == after:
                break
            after = reply.json["next"]
        assert found == last


async def test_lanes_with_long_reasons_come_in_short_pages(api: Api) -> None:
    names = [f"lane-{number:03}" for number in range(300)]
    for name in names:
        await api.store.apply(PauseLane(lane_id=name, reason="r" * 4_096))
    seen: list[str] = []
    cursor, pages = "", 0
    while cursor is not None:
        page = (await api.get("/v1/lanes", cursor=cursor)).json
        seen += [lane["lane_id"] for lane in page["lanes"]]
        cursor, pages = page["next_cursor"], pages + 1
    assert seen == sorted({*names, *api.server.settings.lanes})
    assert pages > 1


async def test_the_detail_shows_the_newest_tracebacks(api: Api) -> None:
    policy = {"retry_policy": {"max_retries": 30, "backoff": {"type": "fixed", "delay_ms": 0}}}
    execution_id = await create(api, policy=policy)
    for _ in range(20):
        task = await claim(api)
        await act(api, task, "fail", reason="no", category="error", detail="t" * 16_000)
    attempts = (await api.get(path(execution_id, "detail"))).json["attempts"]
    shown = ["failure_detail" in each for each in attempts if each["attempt_index"] < 20]
    assert shown == [False] * 4 + [True] * 16
