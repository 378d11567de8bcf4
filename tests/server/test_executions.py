"""Executions one by one, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.storage.minting import new_uuid
from support.server import Api
from support.work import NOW, act, claim, classic, create, path

NOBODY = "{fp:7}:7c9e6679-7425-40de-944b-e07fc1f90ae7"


async def test_creation_answers_as_it_always_did(api: Api) -> None:
    body = classic(tags={"app.team": "media"}, policy={"retry_policy": {"max_retries": 2}})
    first = await api.post("/v1/executions", body)
    again = await api.post("/v1/executions", body)
    assert first.status == 201
    assert first.json == {"Created": {"execution_id": body["execution_id"], "public_state": "waiting"}}
    assert again.status == 200
    assert again.json == {"Duplicate": {"execution_id": body["execution_id"]}}


async def test_a_key_used_before_answers_with_its_execution(api: Api) -> None:
    first = await create(api, idempotency_key="k")
    reply = await api.post("/v1/executions", classic(idempotency_key="k"))
    assert (reply.status, reply.json) == (200, {"Duplicate": {"execution_id": first}})


async def test_delayed_work_says_so(api: Api) -> None:
    reply = await api.post("/v1/executions", classic(delay_until=api.store.now() + 60_000))
    assert reply.json["Created"]["public_state"] == "delayed"


REQUIRED = (
    "execution_id",
    "namespace",
    "lane_id",
    "execution_kind",
    "input_payload",
    "priority",
    "creator_identity",
    "partition_id",
    "now",
)


@pytest.mark.parametrize("field", REQUIRED)
async def test_creation_needs_every_field(api: Api, field: str) -> None:
    for body in (classic() | {field: None}, {k: v for k, v in classic().items() if k != field}):
        reply = await api.post("/v1/executions", body)
        assert reply.status == 422
        assert reply.json["error"].startswith("invalid JSON: Unprocessable Entity")
        assert reply.json["field"] == field


@pytest.mark.parametrize(
    "fields",
    [
        {"execution_id": "{fp:01}:7c9e6679-7425-40de-944b-e07fc1f90ae7"},
        {"execution_id": NOBODY.upper()},
        {"lane_id": ""},
        {"lane_id": "é"},
        {"lane_id": "x" * 65},
        {"priority": 2**31},
        {"priority": 1.5},
        {"partition_id": 65_536},
        {"input_payload": "text"},
        {"input_payload": [256]},
        {"input_payload": {"base64": "?"}},
        {"policy": []},
        {"policy": "x"},
        {"tags": {"a": 1}},
    ],
)
async def test_a_field_of_the_wrong_shape_is_unprocessable(api: Api, fields: dict[str, Any]) -> None:
    reply = await api.post("/v1/executions", classic() | fields)
    assert reply.status == 422, reply
    assert reply.json["code"] == "invalid_input"


async def test_a_policy_has_a_shape(api: Api) -> None:
    wrong: tuple[dict[str, Any], ...] = (
        {"retry_policy": []},
        {"retry_policy": {"max_retries": "x"}},
        {"max_replay_count": -1},
    )
    for policy in wrong:
        reply = await api.post("/v1/executions", classic(policy=policy))
        assert (reply.status, reply.json["field"]) == (422, "policy")
        assert reply.json["error"].startswith("invalid JSON: Unprocessable Entity")


async def test_a_partition_that_does_not_exist_is_refused(api: Api) -> None:
    reply = await api.post("/v1/executions", classic(execution_id=NOBODY.replace("7}", "256}")))
    assert reply.status == 400


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ({"routing_requirements": []}, "invalid_policy_json"),
        ({"routing_requirements": {"required_capabilities": ["a,b"]}}, "invalid_capabilities"),
    ],
)
async def test_a_policy_that_the_engine_refuses(api: Api, policy: Any, code: str) -> None:
    reply = await api.post("/v1/executions", classic(policy=policy))
    assert (reply.status, reply.json["code"], reply.json["kind"]) == (400, code, code)


async def test_options_of_a_policy_may_be_null(api: Api) -> None:
    await create(api, policy={"retry_policy": None, "timeout_policy": {"attempt_timeout_ms": None}})


async def test_bytes_stay_bytes(api: Api) -> None:
    await create(api, input_payload={"base64": "/wA="}, payload_encoding=None)
    task = await claim(api)
    assert task["input_base64"] == "/wA="
    await act(api, task, "complete", result_base64="AP8=")
    reply = await api.get(path(task["execution_id"], "result"))
    assert (reply.status, reply.raw) == (200, b"\x00\xff")
    assert reply.headers["content-type"] == "application/octet-stream"


async def test_bodies_have_a_limit(api: Api) -> None:
    reply = await api.post("/v1/executions", classic(creator_identity="x" * 1_048_576))
    assert reply.status == 413
    assert reply.json["error"] == "payload_too_large"
    assert reply.json["limit_bytes"] == 1_048_576
    assert reply.json["route"] == "/v1/executions"


async def test_the_record(api: Api) -> None:
    execution_id = await create(api)
    reply = await api.get(path(execution_id))
    created_at = reply.json.pop("created_at")
    assert isinstance(created_at, str)
    assert int(created_at) > NOW
    assert reply.json == {
        "execution_id": execution_id,
        "namespace": "demo",
        "lane_id": "default",
        "execution_kind": "resize",
        "priority": 0,
        "public_state": "waiting",
        "current_attempt_index": 0,
        "flow_id": None,
        "blocking_detail": "",
        "state_vector": {
            "lifecycle_phase": "runnable",
            "ownership_state": "unowned",
            "eligibility_state": "eligible_now",
            "blocking_reason": "waiting_for_worker",
            "terminal_outcome": "none",
            "attempt_state": "pending_first_attempt",
            "public_state": "waiting",
        },
    }
    assert (await api.get(f"/v1/executions/{execution_id}")).status == 200  # braces as they are
    task = await claim(api)
    await act(api, task, "complete")
    ended = (await api.get(path(execution_id))).json
    assert ended["public_state"] == "completed"
    assert int(ended["completed_at"]) >= int(ended["started_at"]) >= int(created_at)


async def test_the_state_is_one_word(api: Api) -> None:
    execution_id = await create(api)
    reply = await api.get(path(execution_id, "state"))
    assert (reply.status, reply.raw) == (200, b'"waiting"')


@pytest.mark.parametrize(
    ("rest", "error"),
    [
        ((), f"execution not found: {NOBODY}"),
        (("state",), f"execution not found: {NOBODY}"),
        (("result",), f"execution result not found: {NOBODY}"),
        (("pending-waitpoints",), "not found: execution"),
    ],
)
async def test_what_is_not_there(api: Api, rest: tuple[str, ...], error: str) -> None:
    reply = await api.get(path(NOBODY, *rest))
    assert (reply.status, reply.json["error"]) == (404, error)
    assert reply.json["retryable"] is False


@pytest.mark.parametrize("bad", ["nonsense", "{fp:1}:x", "{fp:x}:7c9e6679-7425-40de-944b-e07fc1f90ae7"])
async def test_a_bad_id_in_the_path(api: Api, bad: str) -> None:
    for rest in ((), ("state",), ("result",), ("detail",)):
        reply = await api.get(path(bad, *rest))
        assert reply.status == 400
        assert reply.json["error"].startswith("invalid execution_id: ")


WHOLE = "; a whole id looks like {fp:7}:7c9e6679-7425-40de-944b-e07fc1f90ae7"


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ("nonsense", "is missing the `{fp:N}:` hash-tag prefix: nonsense" + WHOLE),
        ("{fp:01}:7c9e6679-7425-40de-944b-e07fc1f90ae7", "partition index is not a valid u16: 01"),
        ("{fp:1}:7C9E", "UUID suffix is not a valid UUID: 7C9E"),
        ("x" * 5_000, "is missing the `{fp:N}:` hash-tag prefix: " + "x" * 256 + WHOLE),
    ],
)
async def test_a_bad_id_is_shown_with_what_it_lacks(api: Api, bad: str, problem: str) -> None:
    reply = await api.get(path(bad))
    assert reply.json["error"] == f"invalid execution_id: execution_id {problem}"


@pytest.mark.parametrize("end", ["{fp:65536}:%s", "{fp:7}:%s\n"])
async def test_a_bad_id_in_the_body_is_a_bad_shape(api: Api, end: str) -> None:
    odd = end % "7c9e6679-7425-40de-944b-e07fc1f90ae7"
    execution_id = await create(api)
    cancel = {"execution_id": odd, "reason": "r", "now": 1}
    for reply in (
        await api.post("/v1/executions", classic(execution_id=odd)),
        await api.post(path(execution_id, "cancel"), cancel),
    ):
        assert (reply.status, reply.json["field"]) == (422, "execution_id")
    assert (await api.post("/v1/executions", classic(lane_id="a\n"))).status == 422


@pytest.mark.parametrize("now", [-1, 0, 2**63 - 1])
async def test_the_clock_of_the_caller_does_not_matter(api: Api, now: int) -> None:
    assert (await api.post("/v1/executions", classic(now=now))).status == 201


@pytest.mark.parametrize(
    "policy", [{"max_replay_count": 2**32}, {"retry_policy": {"max_retries": 2**32}}, {"priority": 2**31}]
)
async def test_a_number_out_of_range_in_the_policy(api: Api, policy: dict[str, Any]) -> None:
    reply = await api.post("/v1/executions", classic(policy=policy))
    assert (reply.status, reply.json["field"]) == (422, "policy")


async def test_a_result_is_there_when_completed(api: Api) -> None:
    execution_id = await create(api)
    assert (await api.get(path(execution_id, "result"))).status == 404
    await act(api, await claim(api), "complete")
    reply = await api.get(path(execution_id, "result"))
    assert (reply.status, reply.raw) == (200, b"")
    assert (await api.post(path(execution_id, "replay"))).json == {"Replayed": {"public_state": "waiting"}}
    assert (await api.get(path(execution_id, "result"))).status == 404


async def suspended(api: Api, **fields: Any) -> tuple[str, dict[str, Any]]:
    execution_id = await create(api)
    answer = await act(api, await claim(api), "suspend", **fields)
    return execution_id, answer["Suspended"]


async def test_open_waitpoints(api: Api) -> None:
    execution_id, wait = await suspended(api, signals=["go"], timeout_ms=60_000)
    (shown,) = (await api.get(path(execution_id, "pending-waitpoints"))).json
    assert shown["waitpoint_id"] == wait["waitpoint_id"]
    assert shown["state"] == "active"
    assert shown["required_signal_names"] == ["go"]
    assert shown["execution_id"] == execution_id
    kid, digest = wait["waitpoint_token"].split(":")
    assert (shown["token_kid"], shown["token_fingerprint"]) == (kid, digest[:16])
    assert digest not in str(shown)
    assert isinstance(shown["created_at"], int)
    assert (await api.get(path(execution_id, "pending-waitpoints"), after=wait["waitpoint_id"])).json == []
    assert (await api.get(path(execution_id, "pending-waitpoints"), after="x")).status == 400


async def test_the_token_of_a_waitpoint(api: Api) -> None:
    execution_id, wait = await suspended(api)
    reply = await api.get(path(execution_id, "waitpoints", wait["waitpoint_id"], "token"))
    assert (reply.status, reply.json) == (200, {"token": wait["waitpoint_token"]})
    assert reply.headers["cache-control"] == "no-store"
    for missing in (
        path(execution_id, "waitpoints", new_uuid(), "token"),
        path(NOBODY, "waitpoints", new_uuid(), "token"),
    ):
        reply = await api.get(missing)
        assert (reply.status, reply.headers["cache-control"]) == (404, "no-store")
        assert reply.json["error"] == "waitpoint token not found (consumed, expired, or unknown id)"
    assert (await api.get(path(execution_id, "waitpoints", "x", "token"))).status == 400
    await api.post(path(execution_id, "resume"))
    assert (await api.get(path(execution_id, "waitpoints", wait["waitpoint_id"], "token"))).status == 404


def signal_of(execution_id: str, wait: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "execution_id": execution_id,
        "waitpoint_id": wait["waitpoint_id"],
        "signal_id": new_uuid(),
        "signal_name": "go",
        "signal_category": "human",
        "source_type": "human",
        "source_identity": "me",
        "target_scope": "execution",
        "waitpoint_token": wait["waitpoint_token"],
        "now": NOW,
    } | fields


async def test_a_signal_resumes(api: Api) -> None:
    execution_id, wait = await suspended(api, signals=["go"])
    other = await api.post(path(execution_id, "signal"), signal_of(execution_id, wait, signal_name="stop"))
    assert other.json["Accepted"]["effect"] == "no_op"
    sent = signal_of(execution_id, wait, payload=[1, 255], idempotency_key="once")
    reply = await api.post(path(execution_id, "signal"), sent)
    assert reply.json == {
        "Accepted": {"signal_id": sent["signal_id"], "effect": "resume_condition_satisfied"}
    }
    (signal,) = (await claim(api))["resume_signals"]
    assert signal["payload_base64"] == "Af8="


async def test_a_signal_sent_twice(api: Api) -> None:
    execution_id, wait = await suspended(api, mode="count", count=2)
    sent = signal_of(execution_id, wait, idempotency_key="once")
    await api.post(path(execution_id, "signal"), sent)
    reply = await api.post(path(execution_id, "signal"), sent | {"signal_id": new_uuid()})
    assert reply.json == {"Duplicate": {"existing_signal_id": sent["signal_id"]}}


async def test_signals_that_are_refused(api: Api) -> None:
    execution_id, wait = await suspended(api)
    route = path(execution_id, "signal")

    async def refused(**fields: Any) -> tuple[int, str]:
        reply = await api.post(route, signal_of(execution_id, wait) | fields)
        return reply.status, reply.json["code"]

    assert await refused(waitpoint_token="") == (400, "missing_token")
    assert await refused(waitpoint_token="k1:" + "0" * 64) == (400, "invalid_token")
    assert await refused(execution_id=NOBODY) == (400, "invalid_input")
    assert await refused(waitpoint_id="x") == (422, "invalid_input")
    big = await api.post(route, signal_of(execution_id, wait, payload={"base64": "AAAA" * 22_000}))
    assert (big.status, big.json["code"]) == (400, "payload_too_large")
    huge = await api.post(route, signal_of(execution_id, wait, payload={"base64": "AAAA" * 70_000}))
    assert (huge.status, huge.json["limit_bytes"]) == (413, 262_144)
    gone = await api.post(path(NOBODY, "signal"), signal_of(NOBODY, wait))
    assert (gone.status, gone.json["error"]) == (404, "not found: execution")


async def test_an_operator_needs_no_token_of_the_waitpoint(api: Api) -> None:
    execution_id, wait = await suspended(api, signals=["go"])
    reply = await api.post(
        path(execution_id, "waitpoints", wait["waitpoint_id"], "signal"),
        {"signal_name": "go", "payload": {"ok": True}},
    )
    assert reply.json["Accepted"]["effect"] == "resume_condition_satisfied"
    (signal,) = (await claim(api))["resume_signals"]
    assert signal["payload"] == '{"ok": true}'
