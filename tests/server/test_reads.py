"""Lists and closer looks, over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.model.ids import execution_id as named
from flowfabric.storage.minting import new_uuid
from support.server import Api
from support.serving import Backend
from support.until import listening
from support.work import act, claim, create, path

NOBODY = "{fp:7}:7c9e6679-7425-40de-944b-e07fc1f90ae7"


async def test_the_ids_of_a_partition(api: Api) -> None:
    mine = sorted([await create(api, execution_id=named(7, new_uuid())) for _ in range(3)])
    await create(api, execution_id=named(70, new_uuid()))

    async def page(**query: Any) -> Any:
        return (await api.get("/v1/executions", partition=7, **query)).json

    assert await page() == {"executions": mine, "next_cursor": None}
    assert await page(limit=2) == {"executions": mine[:2], "next_cursor": mine[1]}
    assert await page(limit=2, cursor=mine[1]) == {"executions": mine[2:], "next_cursor": None}
    assert await page(limit=0) == {"executions": [], "next_cursor": None}
    assert await page(limit=99_999, cursor="") == {"executions": mine, "next_cursor": None}


@pytest.mark.parametrize(
    "query",
    [
        {"partition": 256},
        {"partition": 65_536},
        {"partition": "x"},
        {"partition": ""},
        {"partition": 7, "limit": "x"},
        {"partition": 7, "cursor": "x"},
        {"limit": 1001},
        {"limit": 0},
        {"cursor": "x"},
        {"order": "best"},
        {"state": "odd"},
        {"tag": "novalue"},
        {"flow_id": "x"},
        {"created_after": "soon"},
        {"lane": "é"},
    ],
)
async def test_bad_queries_are_refused(api: Api, query: dict[str, Any]) -> None:
    reply = await api.get("/v1/executions", **query)
    assert reply.status == 400, reply
    assert reply.json["code"] == "invalid_input"
    if query == {"partition": 7, "cursor": "x"}:
        assert reply.json["error"].startswith("invalid cursor: ")


async def ids(api: Api, **query: Any) -> list[str]:
    reply = await api.get("/v1/executions", **query)
    assert reply.status == 200, reply
    return [each["execution_id"] for each in reply.json["executions"]]


async def test_lists_have_filters(api: Api) -> None:
    plain = await create(api)
    lane = await create(api, lane_id="other", tags={"team": "a", "env": "x"})
    kind = await create(api, execution_kind="report", namespace="n2", tags={"team": "a"})
    assert await ids(api) == [kind, lane, plain]
    assert await ids(api, order="oldest") == [plain, lane, kind]
    assert await ids(api, lane="other") == [lane]
    assert await ids(api, namespace="n2") == [kind]
    assert await ids(api, kind="report") == [kind]
    assert await ids(api, tag="team:a") == [kind, lane]
    assert await ids(api, tag=["team:a", "env:x"]) == [lane]
    assert await ids(api, tag=["team:a", "team:b"]) == []
    assert await ids(api, flow_id=new_uuid()) == []
    held = (await claim(api, "other"))["execution_id"]
    assert await ids(api, state="active") == [held]
    assert await ids(api, state=["active", "waiting"]) == [kind, lane, plain]
    assert await ids(api, state="eligible") == [kind, plain]
    assert await ids(api, state="resumable") == []
    created = (await api.get("/v1/executions", lane="other")).json["executions"][0]["created_at"]
    assert await ids(api, created_after=created - 1, lane="other") == [lane]
    assert await ids(api, created_before=created, lane="other") == []


async def test_lists_come_in_pages(api: Api) -> None:
    made = [await create(api) for _ in range(5)]
    seen: list[str] = []
    cursor = ""
    while True:
        reply = await api.get("/v1/executions", limit=2, cursor=cursor)
        assert reply.status == 200, reply
        seen += [each["execution_id"] for each in reply.json["executions"]]
        cursor = reply.json["next_cursor"]
        if cursor is None:
            break
    assert seen == made[::-1]
    first = (await api.get("/v1/executions", limit=2)).json["next_cursor"]
    assert (await api.get("/v1/executions", limit=2, cursor=first, order="oldest")).status == 400


async def test_a_summary(api: Api) -> None:
    execution_id = await create(api, tags={"a": "b"}, priority=5)
    (shown,) = (await api.get("/v1/executions")).json["executions"]
    assert isinstance(shown.pop("created_at"), int)
    assert shown == {
        "execution_id": execution_id,
        "namespace": "demo",
        "lane_id": "default",
        "execution_kind": "resize",
        "public_state": "waiting",
        "priority": 5,
        "attempt_index": 0,
        "tags": {"a": "b"},
        "blocking_reason": "waiting_for_worker",
    }
    task = await claim(api)
    await act(api, task, "progress", pct=40, message="half")
    await act(api, task, "complete")
    (shown,) = (await api.get("/v1/executions")).json["executions"]
    assert shown["progress_pct"] == 40
    assert shown["completed_at"] >= shown["started_at"]
    assert "blocking_reason" not in shown


async def test_everything_about_one(api: Api) -> None:
    execution_id = await create(api, policy={"retry_policy": {"max_retries": 1}})
    task = await claim(api)
    await act(api, task, "fail", reason="boom", category="odd", detail="trace")
    detail = (await api.get(path(execution_id, "detail"))).json
    assert detail["policy"] == {"retry_policy": {"max_retries": 1}}
    assert detail["attempts"][0]["failure_detail"] == "trace"
    assert detail["failure"] == {"reason": "boom", "category": "odd"}
    assert detail["state_vector"]["public_state"] == "delayed"
    for name in ("lease", "suspension", "waitpoints", "dependencies", "budgets", "usage"):
        assert name in detail
    assert detail["lease"] is None


async def test_attempts_say_what_they_follow(api: Api) -> None:
    retry = {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 0}}
    execution_id = await create(api, policy={"retry_policy": retry})
    await act(api, await claim(api), "fail", reason="boom")
    await claim(api)
    await api.post(path(execution_id, "revoke-lease"))
    await act(api, await claim(api), "complete")
    await api.post(path(execution_id, "replay"))
    await claim(api)
    shown = (await api.get(path(execution_id, "detail"))).json["attempts"]
    assert [each["attempt_state"] for each in shown] == [
        "ended_failure",
        "interrupted_reclaimed",
        "ended_success",
        "started",
    ]
    assert (shown[1]["retry_reason"], shown[1]["previous_attempt_index"]) == ("boom", 0)
    assert (shown[2]["reclaim_reason"], shown[2]["previous_attempt_index"]) == ("lease_revoked", 1)
    assert (shown[3]["replay_requested_by"], shown[3]["replayed_from_attempt_index"]) == ("anonymous", 2)


async def test_a_lease_and_a_wait_in_detail(api: Api) -> None:
    execution_id = await create(api)
    task = await claim(api)
    lease = (await api.get(path(execution_id, "detail"))).json["lease"]
    assert lease["lease_id"] == task["fence"]["lease_id"]
    assert lease["worker_id"] == "w1"
    answer = await act(api, task, "suspend", signals=["go"])
    reply = await api.get(path(execution_id, "detail"))
    assert reply.json["suspension"]["open"] is True
    assert reply.json["waitpoints"][0]["required_signal_names"] == ["go"]
    assert answer["Suspended"]["waitpoint_token"].encode() not in reply.raw


async def test_history(api: Api) -> None:
    execution_id = await create(api)
    await act(api, await claim(api), "complete")
    whole = (await api.get(path(execution_id, "history"))).json
    assert [line["event"] for line in whole["events"]] == ["created", "claimed", "completed"]
    assert [line["seq"] for line in whole["events"]] == [1, 2, 3]
    assert whole["next_cursor"] is None
    first = whole["events"][0]
    assert (first["from"], first["to"], first["actor"]) == (None, "waiting", "cli")
    assert {"seq", "at", "event", "attempt_index", "lease_epoch", "actor", "details"} <= first.keys()
    page = (await api.get(path(execution_id, "history"), limit=2)).json
    rest = (await api.get(path(execution_id, "history"), cursor=page["next_cursor"])).json
    assert page["events"] + rest["events"] == whole["events"]
    assert (await api.get(path(NOBODY, "history"))).json["kind"] == "execution_not_found"


async def test_why_it_waits(api: Api) -> None:
    execution_id = await create(api, policy={"routing_requirements": {"required_capabilities": ["gpu"]}})
    alone = (await api.get(path(execution_id, "explain"))).json
    assert alone["because"][0]["reason"] == "waiting_for_worker"
    await api.post("/v1/workers/w1/tasks", {"worker_instance_id": "w1-1", "lanes": ["default"]})
    reply = (await api.get(path(execution_id, "explain"))).json
    assert reply["runnable"] is False
    assert reply["because"][0]["reason"] == "waiting_for_capable_worker"
    assert "gpu" in reply["because"][0]["detail"]
    await claim(api, worker="w2", capabilities=["gpu"])
    assert (await api.get(path(execution_id, "explain"))).json["because"] == []


async def test_waiting_for_the_end(api: Api) -> None:
    execution_id = await create(api)
    task = await claim(api)
    early = await api.get(path(execution_id, "wait"))
    assert early.json == {"execution_id": execution_id, "public_state": "active", "terminal": False}
    waiting = asyncio.create_task(api.get(path(execution_id, "wait"), timeout_ms=20_000))
    await listening(api.store, f"execution:{execution_id}")
    await act(api, task, "complete", result={"width": 640})
    reply = await asyncio.wait_for(waiting, 5)
    assert reply.json["terminal"] is True
    assert reply.json["result"] == {"width": 640}
    assert (await api.get(path(execution_id, "wait"), timeout_ms=30_001)).status == 400
    assert (await api.get(path(NOBODY, "wait"))).status == 404


async def test_the_end_may_be_a_failure(api: Api) -> None:
    execution_id = await create(api)
    await act(api, await claim(api), "fail", reason="boom", category="permanent")
    reply = await api.get(path(execution_id, "wait"), timeout_ms=1)
    assert reply.json["failure"] == {"reason": "boom", "category": "permanent"}


async def test_lanes(api: Api) -> None:
    await create(api, lane_id="b")
    await create(api, lane_id="a")
    await claim(api, "a")
    lanes = [lane for lane in (await api.get("/v1/lanes")).json["lanes"] if lane["lane_id"] != "default"]
    assert [(lane["lane_id"], lane["counts"], lane["paused"]) for lane in lanes] == [
        ("a", {"active": 1}, False),
        ("b", {"waiting": 1}, False),
    ]
    assert lanes[0]["oldest_waiting_age_ms"] is None
    assert lanes[1]["oldest_waiting_age_ms"] >= 0
    first = (await api.get("/v1/lanes", limit=1)).json
    rest = (await api.get("/v1/lanes", cursor=first["next_cursor"])).json
    assert [lane["lane_id"] for lane in first["lanes"] + rest["lanes"]] == ["a", "b", "default"]
    assert rest["next_cursor"] is None


async def test_workers(api: Api) -> None:
    await create(api)
    await claim(api, capabilities=["gpu"])
    (worker,) = (await api.get("/v1/workers")).json["workers"]
    assert worker["worker_id"] == "w1"
    assert worker["worker_instance_id"] == "w1-1"
    assert (worker["lanes"], worker["capabilities"], worker["leases_held"]) == (["default"], ["gpu"], 1)
    assert worker["last_heartbeat_at"] > 0


async def test_the_inbox(api: Api) -> None:
    execution_id = await create(api)
    await act(api, await claim(api), "suspend", signals=["go"], timeout_ms=60_000)
    reply = await api.get("/v1/waitpoints")
    (letter,) = reply.json["waitpoints"]
    assert letter["execution_id"] == execution_id
    assert letter["reason"] == "waiting_for_signal"
    assert letter["required_signal_names"] == ["go"]
    assert letter["age_ms"] >= 0
    assert "waitpoint_token" not in letter
    assert reply.json["next_cursor"] is None
    assert (await api.get("/v1/waitpoints", cursor="zzz")).status == 400


async def test_stats(api: Api, backend: Backend) -> None:
    await create(api)
    await create(api)
    await act(api, await claim(api), "complete")
    stats = (await api.get("/v1/stats")).json
    assert (stats["counts"]["waiting"], stats["counts"]["completed"], stats["total"]) == (1, 1, 2)
    assert backend.name.startswith(stats["backend"])
    assert stats["version"]
    assert stats["uptime_ms"] >= 0
    assert 0 <= api.store.now() - stats["now"] < 10_000
    assert stats["rates"]["last_minute"]["submitted"] == 2


async def test_the_queue_of_a_lane(api: Api) -> None:
    low, high = await create(api), await create(api, priority=9)
    first = (await api.get("/v1/executions", order="queue", lane="default", limit=1)).json
    assert [each["execution_id"] for each in first["executions"]] == [high]
    rest = await ids(api, order="queue", lane="default", cursor=first["next_cursor"])
    assert rest == [low]
    assert await ids(api, order="queue", lane="default", namespace="nobody") == []
    assert (await api.get("/v1/executions", order="queue")).status == 400
    assert (await api.get("/v1/executions", order="queue", lane="default", cursor="x")).status == 400


async def test_a_result_stays_with_its_attempt(api: Api) -> None:
    execution_id = await create(api)
    await act(api, await claim(api), "complete", result={"n": 1})
    await api.post(path(execution_id, "replay"))
    detail = (await api.get(path(execution_id, "detail"))).json
    assert detail["attempts"][0]["result"] == {"n": 1}
    assert detail["input"] == {}
