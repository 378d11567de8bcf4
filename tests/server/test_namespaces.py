"""A token that is bound to a namespace sees nothing of the others."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.server.roles import Role
from flowfabric.storage.minting import new_uuid
from support.server import Api
from support.work import NOW, act, bind, claim, create, path

GETS = (
    (), ("state",), ("result",), ("pending-waitpoints",), ("detail",), ("history",), ("explain",), ("wait",),
    ("attempts", "0", "stream"), ("attempts", "0", "stream", "tail"), ("attempts", "0", "stream", "summary"),
    ("waitpoints", new_uuid(), "token"),
)  # fmt: skip
POSTS = ("replay", "revoke-lease", "resume", "pause", "unpause")


async def test_executions_of_others_do_not_exist(api: Api) -> None:
    execution_id = await create(api)
    bind(api, "other")
    for rest in GETS:
        assert (await api.get(path(execution_id, *rest))).status == 404, rest
    for verb in POSTS:
        assert (await api.post(path(execution_id, verb))).status == 404, verb
    body = {"execution_id": execution_id, "reason": "x", "now": NOW}
    assert (await api.post(path(execution_id, "cancel"), body)).status == 404
    assert (await api.put(path(execution_id, "priority"), {"new_priority": 1})).status == 404
    assert (await api.put(path(execution_id, "tags"), {"tags": {"a": "b"}})).status == 404
    approval = path(execution_id, "waitpoints", new_uuid(), "signal")
    assert (await api.post(approval, {"signal_name": "go"})).status == 404


QUERIES: list[dict[str, Any]] = [
    {},
    {"partition": 7},
    {"namespace": "demo"},
    {"order": "queue", "lane": "default"},
]


@pytest.mark.parametrize("query", QUERIES)
async def test_lists_leave_others_out(api: Api, query: dict[str, Any]) -> None:
    await create(api, execution_id=f"{{fp:7}}:{new_uuid()}")
    mine = await create(api, execution_id=f"{{fp:7}}:{new_uuid()}", namespace="other")
    bind(api, "other")
    reply = await api.get("/v1/executions", **query)
    shown = [each if isinstance(each, str) else each["execution_id"] for each in reply.json["executions"]]
    assert shown == ([] if "namespace" in query else [mine])


async def test_counts_and_waitpoints_leave_others_out(api: Api) -> None:
    await create(api)
    await act(api, await claim(api), "suspend")
    await create(api, namespace="other", lane_id="l2")
    bind(api, "other")
    assert (await api.get("/v1/waitpoints")).json["waitpoints"] == []
    counts = {lane["lane_id"]: lane["counts"] for lane in (await api.get("/v1/lanes")).json["lanes"]}
    assert counts == {"default": {}, "l2": {"waiting": 1}}
    assert (await api.get("/v1/stats")).json["total"] == 1
    assert (await api.post("/v1/lanes/l2/pause")).status == 403


async def test_a_worker_cancels_what_it_holds_and_nothing_else(api: Api) -> None:
    execution_id = await create(api)
    bind(api, "", Role.WORKER)
    body = {"execution_id": execution_id, "reason": "x", "now": NOW}
    for source in ("operator_override", "lease_holder", "worker"):
        reply = await api.post(path(execution_id, "cancel"), body | {"source": source})
        assert (reply.status, reply.json["code"]) == (403, "forbidden")
    await act(api, await claim(api), "cancel")
