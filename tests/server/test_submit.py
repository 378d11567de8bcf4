"""What a submission refuses, and whose name stands in the history."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.server.roles import Need, Principal, Role
from support.server import Api
from support.work import create, path

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

    async def admit(_: dict[bytes, bytes], need: Need | None) -> Principal:
        return Principal("ci", Role.ADMIN)

    api.server.admit = admit  # type: ignore[method-assign, assignment]
    signed = await submitted("ann")
    assert await first_actor(api, signed) == "ci"
    assert (await api.get(path(signed, "detail"))).json["creator_identity"] == "ann"
    assert await first_actor(api, await create(api, creator_identity="ann")) == "ci"
