"""Calls of a worker over HTTP."""

from __future__ import annotations

from typing import Any

from support.server import Api

W1 = {"worker_instance_id": "w1-a", "lanes": ["default"]}


GRANT = {"lane_id": "default", "worker_instance_id": "w1-a", "grant_ttl_ms": 5_000}


async def submit(api: Api, **fields: Any) -> str:
    reply = await api.post("/v1/submit", {"kind": "work"} | fields)
    assert reply.status == 201, reply.json
    return str(reply.json["execution_id"])


async def claim(api: Api, worker: str = "w1", **fields: Any) -> list[Any]:
    reply = await api.post(f"/v1/workers/{worker}/tasks", W1 | fields)
    assert reply.status == 200, reply.json
    tasks: list[Any] = reply.json["tasks"]
    return tasks


async def claim_one(api: Api, **fields: Any) -> Any:
    (task,) = await claim(api, **fields)
    return task
