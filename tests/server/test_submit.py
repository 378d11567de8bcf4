"""What a submission refuses, and whose name stands in the history."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.server.access.roles import Principal
from flowfabric.wire.rights import Right, Role
from support.server import Api
from support.work import act, claim, create, path

LONG = "x" * 257


@pytest.mark.parametrize(
    ("lane", "details"), [("", ["Empty"]), ("x" * 65, ["TooLong", "65"]), ("a\n", ["NonPrintable", "1"])]
)
async def test_a_malformed_lane_is_a_fault_of_shape(api: Api, lane: str, details: list[str]) -> None:
    body: dict[str, Any] = {"kind": "k", "lane": lane}
    reply = await api.post("/v1/submit", body)
    assert (reply.status, reply.json["code"], reply.json["field"]) == (422, "invalid_input", "lane")
    assert reply.json["error"].startswith("invalid JSON: Unprocessable Entity: lane: ")
    assert reply.json["details"] == details
    batch = await api.post("/v1/submit/batch", {"items": [body, {"kind": "k"}]})
    assert [item.get("field") for item in batch.json["results"]] == ["lane", None]


async def test_a_creator_is_called_a_creator(api: Api) -> None:
    reply = await api.post("/v1/submit", {"kind": "k", "creator": LONG})
    assert (reply.status, reply.json["field"]) == (400, "creator")
    assert reply.json["error"].startswith("creator: ")


async def first_actor(api: Api, execution_id: str) -> str:
    history = (await api.get(path(execution_id, "history"))).json
    return str(history["events"][0]["actor"])


async def test_nobody_signs_with_the_name_of_another(api: Api) -> None:
    async def submitted(creator: str) -> str:
        return str((await api.post("/v1/submit", {"kind": "k", "creator": creator})).json["execution_id"])

    assert await first_actor(api, await submitted("ann")) == "ann"
    assert await first_actor(api, await submitted("")) == "anonymous"

    async def admit(_: dict[bytes, bytes], need: Right | None) -> Principal:
        return Principal("ci", Role.ADMIN)

    api.server.admit = admit  # type: ignore[method-assign, assignment]
    signed = await submitted("ann")
    assert await first_actor(api, signed) == "ci"
    assert (await api.get(path(signed, "detail"))).json["creator_identity"] == "ann"
    assert await first_actor(api, await create(api, creator_identity="ann")) == "ci"


@pytest.mark.parametrize(
    "field", ["lane", "namespace", "priority", "tags", "policy", "delay_ms", "budget_ids", "uuid", "input"]
)
async def test_null_means_that_a_field_is_not_given(api: Api, field: str) -> None:
    body = {"kind": "k", field: None}
    assert (await api.post("/v1/submit", body)).status == 201
    batch = await api.post("/v1/submit/batch", {"items": [body]})
    assert "execution_id" in batch.json["results"][0]


async def test_what_is_required_is_not_null(api: Api) -> None:
    reply = await api.post("/v1/submit", {"kind": None, "lane": None})
    assert (reply.status, reply.json["field"]) == (422, "kind")
    odd = await api.post("/v1/submit", {"kind": "k", "tags": None, "priority": "high"})
    assert (odd.status, odd.json["field"]) == (422, "priority")


async def test_a_result_of_null_is_one(api: Api) -> None:
    execution_id = await create(api)
    await act(api, await claim(api), "complete", result=None, source=None)
    assert (await api.get(path(execution_id, "result"))).raw == b"null"


async def test_null_in_what_a_worker_sends(api: Api) -> None:
    await create(api)
    claims = {
        "worker_instance_id": "i",
        "lanes": ["default"],
        "max_tasks": None,
        "capabilities": None,
        "wait_ms": None,
    }
    (task,) = (await api.post("/v1/workers/w/tasks", claims)).json["tasks"]
    frame = {"frame_type": "t", "payload": "x", "ttl_ms": None, "retention_maxlen": None, "mode": None}
    await act(api, task, "frames", frames=[frame])
    await act(api, task, "renew", lease_ttl_ms=None)
    await act(api, task, "suspend", signals=None, reason_code=None)


async def test_an_id_of_another_namespace_is_taken_on_every_route(api: Api) -> None:
    uuid = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
    theirs = (await api.post("/v1/submit", {"kind": "k", "uuid": uuid, "namespace": "theirs"})).json[
        "execution_id"
    ]
    body = {"kind": "k", "uuid": uuid, "namespace": "ours"}
    refused = await api.post("/v1/submit", body)
    (item,) = (await api.post("/v1/submit/batch", {"items": [body]})).json["results"]
    classic = await api.post(
        "/v1/executions",
        {
            "execution_id": theirs,
            "namespace": "ours",
            "lane_id": "default",
            "execution_kind": "k",
            "input_payload": [],
            "priority": 0,
            "creator_identity": "",
            "partition_id": 0,
            "now": 0,
        },
    )
    assert [reply.status for reply in (refused, classic)] == [409, 409]
    for said in (refused.json, item, classic.json):
        assert (said["code"], said["kind"]) == ("execution_id_taken", "execution_id_taken")
        assert not {"theirs", theirs, "waiting"} & {*said.values()}
    again = await api.post("/v1/submit", {"kind": "k", "uuid": uuid, "namespace": "theirs"})
    assert (again.status, again.json["duplicate"]) == (200, True)
