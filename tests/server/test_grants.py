"""Grants over HTTP: the older way to work."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest

from support.holder_calls import GRANT, claim, claim_one, submit
from support.server import Api


async def test_a_grant_reserves_the_best_and_204_says_there_is_none(api: Api) -> None:
    reply = await api.post("/v1/workers/w1/claim", GRANT)
    assert (reply.status, reply.raw) == (204, b"")
    await submit(api, policy={"routing_requirements": {"required_capabilities": ["gpu"]}}, priority=9)
    execution_id = await submit(api)
    grant = (await api.post("/v1/workers/w1/claim", GRANT)).json
    tag = execution_id.split(":")[0] + ":" + execution_id.split(":")[1]
    assert grant["execution_id"] == execution_id
    assert grant["partition_key"] == tag
    assert grant["grant_key"] == f"ff:exec:{tag}:{execution_id}:claim_grant"
    assert grant["expires_at_ms"] > time.time() * 1000
    assert (await api.post("/v1/workers/w2/claim", GRANT)).status == 204
    assert await claim(api) == []
    assert (await api.post("/v1/workers/w1/claim", GRANT | {"capabilities": ["gpu", "gpu"]})).status == 200


async def test_many_askers_get_different_work(api: Api) -> None:
    await asyncio.gather(*(submit(api) for _ in range(10)))
    replies = await asyncio.gather(*(api.post(f"/v1/workers/w{n}/claim", GRANT) for n in range(12)))
    granted = [reply.json["execution_id"] for reply in replies if reply.status == 200]
    assert len(granted) == len(set(granted)) == 10


@pytest.mark.parametrize(
    ("worker", "fields", "error"),
    [
        ("w%20x", {}, "worker_id: must not contain whitespace or control characters"),
        ("w" * 257, {}, "worker_id: exceeds 256 bytes (got 257)"),
        ("w", {"worker_instance_id": ""}, "worker_instance_id: must not be empty"),
        ("w", {"lane_id": ""}, "lane_id: "),
        ("w", {"grant_ttl_ms": 0}, "grant_ttl_ms must be in 1..=60000"),
        ("w", {"grant_ttl_ms": 60_001}, "grant_ttl_ms must be in 1..=60000"),
        ("w", {"capabilities": [""]}, "invalid_input: capability token must not be empty"),
        ("w", {"capabilities": ["a,b"]}, "invalid_input: capability token may not contain ','"),
        (
            "w",
            {"capabilities": ["a b"]},
            "invalid_input: capability token must not contain whitespace or control",
        ),
        (
            "w",
            {"capabilities": [str(n) for n in range(257)]},
            "invalid_input: capability set exceeds CAPS_MAX_TOKENS (256): 257",
        ),
        (
            "w",
            {"capabilities": ["x" * 4_097]},
            "invalid_input: capability CSV exceeds CAPS_MAX_BYTES (4096): 4097",
        ),
    ],
)
async def test_the_words_of_a_refused_grant(api: Api, worker: str, fields: Any, error: str) -> None:
    reply = await api.post(f"/v1/workers/{worker}/claim", GRANT | fields)
    assert reply.status == 400
    assert reply.json["error"].startswith(error)


async def test_reclaim_grants(api: Api) -> None:
    policy = {"max_reclaim_count": 1, "routing_requirements": {"required_capabilities": ["gpu"]}}
    execution_id = await submit(api, policy=policy)
    path = f"/v1/executions/{quote(execution_id)}/reclaim"
    body = GRANT | {"worker_id": "w2", "worker_capabilities": ["gpu"]}
    assert (await api.post(path, body)).json == {
        "status": "not_reclaimable",
        "execution_id": execution_id,
        "detail": "execution_not_reclaimable",
    }
    await claim_one(api, capabilities=["gpu"])
    dead = {"worker_instance_id": "w1-a"}
    await api.post("/v1/workers/w1/dead", dead)
    assert (await api.post(path, body | {"worker_capabilities": []})).json[
        "detail"
    ] == "capability_mismatch: gpu"
    granted = (await api.post(path, body)).json
    assert (granted["status"], granted["lane_id"]) == ("granted", "default")
    assert set(granted) >= {"execution_id", "partition_key", "grant_key", "expires_at_ms"}
    again = await api.post(path, body)
    assert (again.status, again.json["kind"], again.json["retryable"]) == (409, "state_conflict", False)
    assert (await api.post(path, body | {"lane_id": "other"})).status in {400, 409}
    assert (await api.post(path, body | {"worker_id": ""})).json["error"] == "worker_id: must not be empty"
    unknown = await api.post(f"/v1/executions/{quote('{fp:0}:' + str(uuid4()))}/reclaim", body)
    assert (unknown.status, unknown.json["error"]) == (404, "not found: execution")


async def test_reclaim_at_its_cap(api: Api) -> None:
    execution_id = await submit(api, policy={"max_reclaim_count": 0})
    await claim_one(api)
    await api.post("/v1/workers/w1/dead", {"worker_instance_id": "w1-a"})
    reply = await api.post(f"/v1/executions/{quote(execution_id)}/reclaim", GRANT | {"worker_id": "w2"})
    assert reply.json == {
        "status": "reclaim_cap_exceeded",
        "execution_id": execution_id,
        "reclaim_count": 0,
    }
