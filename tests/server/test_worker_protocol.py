"""A worker in any language: claims, holds, ends and waits over HTTP alone."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from typing import Any
from unittest.mock import AsyncMock
from urllib.parse import quote
from uuid import uuid4

import aiohttp
import pytest

from flowfabric.model.operations.access_secret import SeedSecret
from flowfabric.model.operations.read import Describe
from flowfabric.model.operations.signal import DeliverSignal
from flowfabric.model.state import Phase
from flowfabric.server.access.roles import Principal
from flowfabric.wire.rights import Role
from support.holder_calls import GRANT, W1, claim, claim_one, submit
from support.server import Api
from support.serving import Backend
from support.until import listening


async def begun(api: Api, **fields: Any) -> Any:
    await submit(api, **fields)
    return await claim_one(api)


async def verb(api: Api, task: Any, name: str, /, **fields: Any) -> Any:
    return await api.post(
        f"/v1/executions/{quote(task['execution_id'])}/{name}", {"fence": task["fence"]} | fields
    )


async def phase(api: Api, execution_id: str) -> Phase:
    return (await api.store.read(Describe(execution_id=execution_id))).run.lifecycle_phase


async def seed(api: Api) -> None:
    await api.store.apply(SeedSecret(kid="k1", secret_hex="ab" * 32))


async def test_a_task_carries_all_that_its_worker_needs(api: Api) -> None:
    policy = {"max_replay_count": 2}
    execution_id = await submit(api, input={"n": 1}, tags={"team": "a"}, policy=policy, priority=7)
    before = int(time.time() * 1000)
    task = await claim_one(api, lease_ttl_ms=5_000)
    assert task["execution_id"] == execution_id
    assert (task["execution_kind"], task["namespace"], task["lane_id"]) == ("work", "default", "default")
    assert (task["flow_id"], task["priority"], task["attempt_index"]) == (None, 7, 0)
    assert task["attempt_type"] == "initial"
    assert set(task["fence"]) == {"lease_id", "lease_epoch", "attempt_id"}
    assert task["fence"]["lease_epoch"] == 1
    assert task["fence"]["attempt_id"] == task["attempt_id"]
    assert before + 4_000 <= task["lease_expires_at"] <= before + 10_000
    assert (task["input"], task["payload_encoding"]) == ({"n": 1}, "json")
    assert "input_base64" not in task
    assert (task["tags"], task["policy"]) == ({"team": "a"}, policy)
    assert (task["resume"], task["resume_signals"], task["steps"]) == (None, [], {})
    assert await claim(api) == []


async def test_raw_bytes_come_back_as_base64(api: Api) -> None:
    raw = base64.b64encode(b"\xff\x00").decode()
    task = await begun(api, input_base64=raw)
    assert (task["input_base64"], task["payload_encoding"], task["policy"]) == (raw, None, None)
    assert "input" not in task


async def test_kinds_lanes_and_capabilities_choose_the_work(api: Api) -> None:
    needs_gpu = {"routing_requirements": {"required_capabilities": ["gpu"]}}
    wanted = await submit(api, kind="b", lane="fast", policy=needs_gpu)
    assert await claim(api, lanes=["fast"]) == []
    assert await claim(api, lanes=["fast"], kinds=["a"], capabilities=["gpu"]) == []
    assert await claim(api, capabilities=["gpu"]) == []
    task = await claim_one(api, lanes=["default", "fast"], kinds=["a", "b"], capabilities=["gpu"])
    assert task["execution_id"] == wanted


async def test_many_tasks_at_once_and_the_same_again_by_claim_id(api: Api) -> None:
    await asyncio.gather(*(submit(api) for _ in range(5)))
    first = await claim(api, max_tasks=3, claim_id="c1")
    again = await claim(api, max_tasks=3, claim_id="c1")
    assert len(first) == 3
    assert sorted(t["execution_id"] for t in again) == sorted(t["execution_id"] for t in first)
    assert len(await claim(api, max_tasks=256)) == 2


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"lanes": []}, "lanes"),
        ({"lanes": ["x"] * 65}, "lanes"),
        ({"max_tasks": 0}, "max_tasks"),
        ({"max_tasks": 257}, "max_tasks"),
        ({"lease_ttl_ms": 999}, "lease_ttl_ms"),
        ({"lease_ttl_ms": 3_600_001}, "lease_ttl_ms"),
        ({"wait_ms": 30_001}, "wait_ms"),
        ({"wait_ms": -1}, "wait_ms"),
        ({"worker_instance_id": ""}, "worker_instance_id"),
    ],
)
async def test_a_claim_outside_its_limits_is_refused(api: Api, fields: Any, field: str) -> None:
    reply = await api.post("/v1/workers/w1/tasks", W1 | fields)
    assert (reply.status, reply.json["kind"], reply.json["code"]) == (400, "invalid_input", "invalid_input")
    assert reply.json["field"] == field
    assert field in reply.json["error"]


async def test_a_claim_without_its_fields_is_misshapen(api: Api) -> None:
    for missing in W1:
        body = {name: value for name, value in W1.items() if name != missing}
        reply = await api.post("/v1/workers/w1/tasks", body)
        assert (reply.status, reply.json["field"]) == (422, missing)


async def test_a_waiting_worker_is_woken(api: Api) -> None:
    waiting = asyncio.create_task(claim(api, wait_ms=10_000))
    await listening(api.store, "lane:default")
    begin = time.monotonic()
    execution_id = await submit(api)
    (task,) = await waiting
    assert task["execution_id"] == execution_id
    assert time.monotonic() - begin < 2


async def test_a_wait_ends_empty_when_nothing_comes(api: Api) -> None:
    begin = time.monotonic()
    assert await claim(api, wait_ms=200) == []
    assert time.monotonic() - begin >= 0.19


async def test_a_client_that_went_away_leaves_no_lease(api: Api, backend: Backend) -> None:
    others = 1 if backend.name == "valkey-cluster" else 0  # that store follows the lane itself for a while
    async with aiohttp.ClientSession() as leaving:
        gone = asyncio.create_task(
            leaving.post(f"{api.base}/v1/workers/w1/tasks", json=W1 | {"wait_ms": 30_000})
        )
        await listening(api.store, "lane:default", others + 1)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
    await listening(api.store, "lane:default", others)
    execution_id = await submit(api)
    assert await phase(api, execution_id) is Phase.RUNNABLE
    assert (await claim_one(api))["attempt_index"] == 0


async def test_a_wait_ends_with_the_server(api: Api) -> None:
    waiting = asyncio.create_task(claim(api, wait_ms=30_000))
    await listening(api.store, "lane:default")
    api.server.stopping.set()
    assert await asyncio.wait_for(waiting, 5) == []


async def test_complete_and_its_repeat(api: Api) -> None:
    task = await begun(api)
    done = {"Completed": {"execution_id": task["execution_id"], "public_state": "completed"}}
    for _ in range(2):
        reply = await verb(api, task, "complete", result={"ok": True})
        assert (reply.status, reply.json) == (200, done)


async def test_results_may_be_bytes_but_not_both(api: Api) -> None:
    task = await begun(api)
    reply = await verb(api, task, "complete", result=1, result_base64="AA==")
    assert (reply.status, reply.json["field"]) == (400, "result")
    reply = await verb(api, task, "complete", result_base64="!")
    assert (reply.status, reply.json["field"]) == (422, "result_base64")
    assert (await verb(api, task, "complete", result_base64="/wA=")).status == 200


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
async def test_a_large_result_passes_and_a_larger_one_does_not(api: Api) -> None:
    task = await begun(api)
    reply = await verb(api, task, "complete", result="x" * 1_048_576)
    assert (reply.status, reply.json["code"]) == (413, "payload_too_large")
    assert (await verb(api, task, "complete", result="x" * 1_048_574)).status == 200


async def test_fail_retries_by_policy_and_then_ends(api: Api) -> None:
    policy = {"retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 0}}}
    task = await begun(api, policy=policy)
    reply = await verb(api, task, "fail", reason="no", category="error", detail="Traceback …")
    assert set(reply.json["RetryScheduled"]) == {"delay_until", "next_attempt_index"}
    assert reply.json["RetryScheduled"]["next_attempt_index"] == 1
    second = await claim_one(api)
    assert (second["attempt_type"], second["attempt_index"]) == ("retry", 1)
    assert (await verb(api, second, "fail", reason="no")).json == "TerminalFailed"
    assert (await verb(api, second, "fail", reason="no")).json == "TerminalFailed"
    assert (await verb(api, second, "fail")).status == 422


async def test_the_small_verbs(api: Api) -> None:
    task = await begun(api)
    renewed = (await verb(api, task, "renew", lease_ttl_ms=60_000)).json
    assert renewed["Renewed"]["expires_at"] > task["lease_expires_at"]
    assert (await verb(api, task, "renew", lease_ttl_ms=1)).status == 400
    assert (await verb(api, task, "progress", pct=50, message="half")).json == "Updated"
    assert (await verb(api, task, "progress", pct=101)).status == 400
    assert (await verb(api, task, "release")).json == "Released"
    task = await claim_one(api)
    assert task["attempt_type"] == "reclaim"
    assert (await verb(api, task, "wait-children")).json == {
        "Moved": {"execution_id": task["execution_id"], "public_state": "waiting"}
    }
    task = await claim_one(api)
    assert task["attempt_type"] == "resumed"
    assert (await verb(api, task, "delay")).status == 400
    assert (await verb(api, task, "delay", delay_ms=1, delay_until=1)).status == 400
    assert (await verb(api, task, "delay", delay_ms=60_000)).json == {
        "Delayed": {"execution_id": task["execution_id"], "public_state": "delayed"}
    }


FIELDS: dict[str, dict[str, Any]] = {
    "complete": {},
    "fail": {"reason": "x"},
    "renew": {},
    "progress": {"pct": 1},
    "delay": {"delay_ms": 5},
    "suspend": {},
    "waitpoints": {"expires_in_ms": 1_000},
    "release": {},
    "wait-children": {},
    "steps": {"name": "s", "result": 1},
    "frames": {"frames": [{"frame_type": "event", "payload": "x"}]},
}


@pytest.mark.parametrize("name", FIELDS)
async def test_every_verb_wants_the_whole_fence(api: Api, name: str) -> None:
    await seed(api)
    task = await begun(api)
    path = f"/v1/executions/{quote(task['execution_id'])}/{name}"
    reply = await api.post(path, FIELDS[name])
    assert (reply.status, reply.json["kind"]) == (400, "fence_required")
    reply = await api.post(path, FIELDS[name] | {"fence": {"lease_id": task["fence"]["lease_id"]}})
    assert (reply.status, reply.json["kind"]) == (400, "partial_fence_triple")
    reply = await api.post(path, FIELDS[name] | {"fence": task["fence"] | {"lease_id": "no"}})
    assert (reply.status, reply.json["field"]) == (422, "fence.lease_id")
    stale = task | {"fence": task["fence"] | {"lease_id": str(uuid4())}}
    reply = await verb(api, stale, name, **FIELDS[name])
    assert (reply.status, reply.json["kind"]) == (409, "stale_lease")
    assert reply.json["retryable"] is False
    assert await phase(api, task["execution_id"]) is Phase.ACTIVE
    unknown = task | {"execution_id": f"{{fp:0}}:{uuid4()}"}
    reply = await verb(api, unknown, name, **FIELDS[name])
    assert (reply.status, reply.json["code"]) in {(404, "execution_not_found"), (409, "stream_closed")}
    assert (await api.post(f"/v1/executions/nonsense/{name}", FIELDS[name])).status == 400


async def test_many_renewals_are_answered_one_by_one(api: Api) -> None:
    task = await begun(api)
    mine = {"execution_id": task["execution_id"], **task["fence"]}
    body = {"fences": [mine, mine | {"lease_epoch": 9}, {"execution_id": "x"}], "lease_ttl_ms": 60_000}
    reply = await api.post("/v1/workers/w1/renew", body)
    good, stale, wrong = reply.json["results"]
    assert good["execution_id"] == task["execution_id"]
    assert good["expires_at"] > task["lease_expires_at"]
    assert (stale["kind"], stale["code"]) == ("stale_lease", "stale_lease")
    assert stale["execution_id"] == task["execution_id"]
    assert (wrong["kind"], wrong["execution_id"]) == ("invalid_input", "x")
    assert (await api.post("/v1/workers/w1/renew", {"fences": [mine] * 256})).status in {200, 413}
    assert (await api.post("/v1/workers/w1/renew", {"fences": [{"execution_id": "x"}] * 257})).status == 400


async def test_a_worker_registers_lives_and_dies(api: Api) -> None:
    worker = {
        "worker_instance_id": "w1-a",
        "lanes": ["default"],
        "capabilities": [],
        "liveness_ttl_ms": 5_000,
    }
    instance = {"worker_instance_id": "w1-a"}
    assert (await api.post("/v1/workers/w1/heartbeat", instance)).json == "NotRegistered"
    assert (await api.post("/v1/workers/w1/register", worker)).json == "Registered"
    assert (await api.post("/v1/workers/w1/register", worker)).json == "Refreshed"
    refreshed = (await api.post("/v1/workers/w1/heartbeat", instance)).json["Refreshed"]
    assert refreshed["next_expiry_ms"] > time.time() * 1000
    task = await begun(api)
    assert (await api.post("/v1/workers/w1/dead", instance | {"reason": "gone"})).json == "Marked"
    assert (await api.post("/v1/workers/w1/dead", instance)).json == "NotRegistered"
    again = await claim_one(api, worker_instance_id="w2-a")
    assert (again["execution_id"], again["attempt_type"]) == (task["execution_id"], "reclaim")
    reply = await verb(api, task, "complete")
    assert (reply.status, reply.json["kind"]) == (409, "stale_lease")


async def signal(api: Api, execution_id: str, waitpoint: Any, name: str, payload: bytes = b"") -> None:
    await api.store.apply(
        DeliverSignal(
            execution_id=execution_id,
            waitpoint_id=waitpoint["waitpoint_id"],
            signal_id=str(uuid4()),
            signal_name=name,
            waitpoint_token=waitpoint["waitpoint_token"],
            payload=payload,
        )
    )


async def test_suspend_and_resume_with_the_signal(api: Api) -> None:
    await seed(api)
    task = await begun(api)
    reply = await verb(api, task, "suspend", signals=["go"], step_name="wait", timeout_ms=60_000)
    suspended = reply.json["Suspended"]
    assert suspended["waitpoint_key"] == f"wpk:{suspended['waitpoint_id']}"
    assert suspended["waitpoint_token"].startswith("k1:")
    assert suspended["additional_waitpoints"] == []
    await signal(api, task["execution_id"], suspended, "go", b"\xff")
    resumed = await claim_one(api)
    assert (resumed["attempt_type"], resumed["attempt_index"]) == ("resumed", 0)
    assert resumed["resume"] == {
        "suspension_id": suspended["suspension_id"],
        "step_name": "wait",
        "reason": "signal",
    }
    (came,) = resumed["resume_signals"]
    assert (came["signal_name"], came["payload_base64"]) == ("go", "/w==")
    assert resumed["steps"]["wait"]["result"]["reason"] == "signal"


async def test_a_tree_gets_a_waitpoint_for_each_key(api: Api) -> None:
    await seed(api)
    task = await begun(api)
    tree = {
        "kind": "AllOf",
        "members": [
            {"kind": "Single", "waitpoint_key": "a", "matcher": {"kind": "ByName", "name": "yes"}},
            {"kind": "Single", "waitpoint_key": "b", "matcher": {"kind": "Wildcard"}},
        ],
    }
    suspended = (await verb(api, task, "suspend", condition=tree, idempotency_key="k")).json["Suspended"]
    (other,) = suspended["additional_waitpoints"]
    assert (suspended["waitpoint_key"], other["waitpoint_key"]) == ("a", "b")
    again = (await verb(api, task, "suspend", condition=tree, idempotency_key="k")).json["Suspended"]
    assert again == suspended
    await signal(api, task["execution_id"], suspended, "yes")
    assert await claim(api) == []
    await signal(api, task["execution_id"], other, "whatever")
    assert (await claim_one(api))["resume"]["reason"] == "signal"


@pytest.mark.parametrize("distinct", [None, "signals", "sources"])
async def test_a_waitpoint_made_ahead_may_satisfy_at_once(api: Api, distinct: str | None) -> None:
    await seed(api)
    task = await begun(api)
    created = (await verb(api, task, "waitpoints", expires_in_ms=60_000)).json["Created"]
    assert created["waitpoint_key"] == f"wpk:{created['waitpoint_id']}"
    await signal(api, task["execution_id"], created, "go", b'{"a":1}')
    counted = {"mode": "count", "count": 1, "distinct": distinct} if distinct else {}
    reply = await verb(api, task, "suspend", use_waitpoint_id=created["waitpoint_id"], **counted)
    satisfied = reply.json["AlreadySatisfied"]
    assert satisfied["waitpoint_id"] == created["waitpoint_id"]
    assert [s["payload"] for s in satisfied["resume_signals"]] == ['{"a":1}']
    assert (await verb(api, task, "complete")).status == 200


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"timeout_behavior": "explode"}, "timeout_behavior"),
        ({"mode": "most"}, "mode"),
        ({"count": 2}, "count"),
        ({"condition": {"kind": "Nonsense"}}, "condition"),
        ({"condition": {"kind": "OperatorOnly"}, "signals": ["a"]}, "condition"),
        ({"condition": {"kind": "TimeoutOnly"}}, "timeout_at"),
        ({"signals": ["__operator_only__"]}, "signals[0]"),
        (
            {"condition": {"kind": "Single", "waitpoint_key": "a"}, "waitpoint_key": "b"},
            "waitpoint_key",
        ),
    ],
)
async def test_a_wait_that_makes_no_sense_is_refused(api: Api, fields: Any, field: str) -> None:
    await seed(api)
    task = await begun(api)
    reply = await verb(api, task, "suspend", **fields)
    assert (reply.status, reply.json["kind"], reply.json["field"]) == (400, "invalid_input", field)


async def test_an_operator_condition_gets_one_waitpoint(api: Api) -> None:
    await seed(api)
    task = await begun(api)
    reply = await verb(api, task, "suspend", condition={"kind": "OperatorOnly"}, waitpoint_key="desk")
    assert reply.json["Suspended"]["waitpoint_key"] == "desk"


async def test_frames_are_appended_all_or_none(api: Api) -> None:
    task = await begun(api)
    frames = [
        {"frame_type": "token", "payload": "hi", "correlation_id": "c"},
        {"frame_type": "blob", "payload_base64": "/w=="},
        {"frame_type": "event", "payload": '{"a":1}', "mode": "summary"},
    ]
    first, second, third = (await verb(api, task, "frames", frames=frames)).json["Appended"]
    assert set(first) == {"entry_id", "frame_count"}
    assert (first["frame_count"], second["frame_count"]) == (1, 2)
    assert third["summary_version"] == 1
    reply = await verb(api, task, "frames", frames=[frames[0], {"frame_type": "x", "payload": "x" * 65_537}])
    assert (reply.status, reply.json["code"]) == (400, "retention_limit_exceeded")
    for wrong in ([], [frames[0]] * 257, [{"frame_type": "x"}]):
        assert (await verb(api, task, "frames", frames=wrong)).status == 400
    (next_one,) = (await verb(api, task, "frames", frames=frames[:1])).json["Appended"]
    assert next_one["frame_count"] == 4
    await verb(api, task, "complete")
    reply = await verb(api, task, "frames", frames=frames)
    assert (reply.status, reply.json["kind"]) == (409, "stream_closed")


async def test_steps_are_stored_once_and_come_with_the_task(api: Api) -> None:
    task = await begun(api)
    base = f"/v1/executions/{quote(task['execution_id'])}/steps"
    assert (await verb(api, task, "steps", name="a/b", result={"n": 1})).json == "Stored"
    assert (await verb(api, task, "steps", name="a/b", result=2)).json == {"Existing": {"result": {"n": 1}}}
    assert (await verb(api, task, "steps", name="raw", result_base64="/w==")).json == "Stored"
    existing = (await verb(api, task, "steps", name="raw", result=1)).json
    assert existing == {"Existing": {"result_base64": "/w=="}}
    assert (await verb(api, task, "steps", name="null", result=None)).json == "Stored"
    listed = (await api.get(base)).json
    assert [(s["name"], s["call_index"]) for s in listed["steps"]] == [("a/b", 0), ("raw", 1), ("null", 2)]
    assert all(s["at"] > 0 for s in listed["steps"])
    assert listed["next_cursor"] is None
    page = (await api.get(base, limit=2)).json
    rest = (await api.get(base, limit=2, cursor=page["next_cursor"])).json
    assert [s["name"] for s in (*page["steps"], *rest["steps"])] == ["a/b", "raw", "null"]
    for wrong in ("x", "9" * 5_000 + "-1-a"):
        assert (await api.get(base, cursor=wrong)).status == 400
    assert (await api.get(base + "/a%2Fb")).json["result"] == {"n": 1}
    assert (await api.get(base + "/none")).status == 404
    assert (await api.get(base + "/%FF")).status == 400
    await verb(api, task, "release")
    again = await claim_one(api)
    assert again["steps"]["a/b"]["result"] == {"n": 1}
    assert again["steps"]["raw"]["result_base64"] == "/w=="
    assert again["steps"]["null"]["result"] is None


# Tokens of one namespace.


async def test_a_bound_token_works_in_its_namespace_only(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await submit(api, namespace="theirs")
    foreign = await claim_one(api, worker_instance_id="w9-a")
    other = await submit(api, namespace="theirs")
    mine = await submit(api, namespace="mine")
    bound = AsyncMock(return_value=Principal("t", Role.WORKER, "mine"))
    monkeypatch.setattr(api.server, "admit", bound)
    assert [t["execution_id"] for t in await claim(api, max_tasks=9)] == [mine]
    assert (await api.post("/v1/workers/w1/claim", GRANT)).status == 204
    assert (await api.post("/v1/workers/w1/tasks", W1 | {"namespace": "theirs"})).status == 403
    reply = await verb(api, foreign, "complete")
    assert (reply.status, reply.json["kind"]) == (404, "execution_not_found")
    fences = [{"execution_id": foreign["execution_id"], **foreign["fence"]}]
    (result,) = (await api.post("/v1/workers/w1/renew", {"fences": fences})).json["results"]
    assert result["kind"] == "execution_not_found"
    await api.post("/v1/workers/w9/dead", {"worker_instance_id": "w9-a"})
    assert (await api.store.read(Describe(execution_id=foreign["execution_id"]))).run.current_lease_id
    assert await phase(api, other) is Phase.RUNNABLE


async def test_an_array_is_no_body(api: Api) -> None:
    reply = await api.call(
        "POST",
        "/v1/workers/w1/tasks",
        data=json.dumps([1]).encode(),
        headers={"Content-Type": "application/json"},
    )
    assert reply.status == 422
