"""Short ways to make and hold work over HTTP."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from flowfabric.model.ids import Partitions, spread
from flowfabric.server.access.roles import Principal
from flowfabric.storage.minting import new_uuid
from flowfabric.wire.rights import Right, Role
from support.server import Api

NOW = 1_760_000_000_000


def path(execution_id: str, *rest: str) -> str:
    """The path of an execution, encoded as ordinary clients do."""
    return "/".join((f"/v1/executions/{quote(execution_id, safe=':')}", *rest))


def classic(**fields: Any) -> dict[str, Any]:
    """A body of the classic creation, complete."""
    execution_id = fields.pop("execution_id", None) or spread(new_uuid(), Partitions())
    return {
        "execution_id": execution_id,
        "namespace": "demo",
        "lane_id": "default",
        "execution_kind": "resize",
        "input_payload": [123, 125],
        "payload_encoding": "json",
        "priority": 0,
        "creator_identity": "cli",
        "partition_id": 7,
        "now": NOW,
    } | fields


async def create(api: Api, **fields: Any) -> str:
    """Create an execution and return its id."""
    body = classic(**fields)
    reply = await api.post("/v1/executions", body)
    assert reply.status == 201, reply
    return str(body["execution_id"])


async def claim(api: Api, lane: str = "default", worker: str = "w1", **fields: Any) -> dict[str, Any]:
    """Claim one task."""
    body = {"worker_instance_id": f"{worker}-1", "lanes": [lane]} | fields
    reply = await api.post(f"/v1/workers/{worker}/tasks", body)
    assert reply.status == 200, reply
    (task,) = reply.json["tasks"]
    return dict(task)


async def act(api: Api, task: dict[str, Any], verb: str, **fields: Any) -> Any:
    """Do something as the holder of a task."""
    reply = await api.post(path(task["execution_id"], verb), {"fence": task["fence"], **fields})
    assert reply.status == 200, reply
    return reply.json


def bind(api: Api, namespace: str, role: Role = Role.ADMIN) -> None:
    """Let everybody come in as one principal."""

    async def admit(_: dict[bytes, bytes], need: Right | None) -> Principal:
        return Principal("bound", role, namespace)

    api.server.admit = admit  # type: ignore[method-assign, assignment]
