"""The fence of a running execution is shown to operators and administrators, and to nobody else, in no form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowfabric.storage.minting import new_uuid
from flowfabric.wire import routes
from flowfabric.wire.rights import Right, Role
from flowfabric.wire.route import RECORD, RUN
from support.server import Api
from support.sse import listen
from support.work import bind, claim, create, path

FENCED = (Role.READER, Role.SUBMITTER, Role.WORKER)
STREAMS = ("/v1/feed", f"{RUN}/events", f"{RUN}/wait")
QUERIES: dict[str, dict[str, Any]] = {
    "ListQueue": {"lane_id": "default"},
    "ListPartition": {"partition": 7},
    "FindKinds": {"wanted": [["demo", "k"]]},
    "FindExecutions": {"prefix": "0123"},
}


async def running(api: Api) -> tuple[str, list[str]]:
    """Make an execution that runs; return its id and what its fence is made of, with the claim that brings it."""
    await create(api)
    claim_id = new_uuid()
    task = await claim(api, claim_id=claim_id)
    return task["execution_id"], [task["fence"]["lease_id"], task["fence"]["attempt_id"], claim_id]


def filled(template: str, execution_id: str) -> str:
    values = {"id": path(execution_id).rpartition("/")[2], "idx": "0", "worker_id": "w1-1", "name": "s"}
    parts = [part[1:-1] if part.startswith("{") else "" for part in template.split("/")]
    return "/".join(
        values.get(name, new_uuid()) if name else part
        for name, part in zip(parts, template.split("/"), strict=True)
    )


@pytest.mark.parametrize("role", FENCED)
async def test_no_read_shows_it_to_others(api: Api, role: Role) -> None:
    execution_id, secrets = await running(api)
    bind(api, "", role)
    for route in routes():
        if route.method != "GET" or route.right is not Right.READ:
            continue
        asked: list[dict[str, Any]] = [] if route.path in STREAMS else [{}]
        names = [question.__name__ for question in route.questions]
        asked += [{"question": json.dumps({name: QUERIES.get(name, {})})} for name in names]
        for query in asked:
            headers = {"Accept": RECORD} if query else {}
            reply = await api.call("GET", filled(route.path, execution_id), headers=headers, **query)
            assert reply.status in {200, 400, 404}, (route.path, query, reply)
            assert not [each for each in secrets if each in reply.raw.decode()], (route.path, query)


@pytest.mark.parametrize("role", FENCED)
async def test_live_streams_do_not_show_it_either(api: Api, role: Role) -> None:
    execution_id, secrets = await running(api)
    bind(api, "", role)
    async with listen(api, "/v1/feed", "0") as feed:
        seen = str(await feed.take(2))
    async with listen(api, path(execution_id, "events")) as events:
        seen += str(await events.take(3))
    assert execution_id in seen
    assert not [each for each in secrets if each in seen]


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.ADMIN])
async def test_operators_see_it(api: Api, role: Role) -> None:
    execution_id, (lease_id, attempt_id, _) = await running(api)
    bind(api, "", role)
    detail = (await api.get(path(execution_id, "detail"))).json
    assert (detail["lease"]["lease_id"], detail["lease"]["lease_epoch"]) == (lease_id, 1)
    assert detail["attempts"][0]["attempt_id"] == attempt_id
    assert lease_id in (await api.get(path(execution_id, "history"))).raw.decode()


async def test_others_see_who_holds_it(api: Api) -> None:
    execution_id, _ = await running(api)
    bind(api, "", Role.READER)
    detail = (await api.get(path(execution_id, "detail"))).json
    assert detail["lease"]["worker_instance_id"] == "w1-1"
    assert detail["lease"].keys().isdisjoint({"lease_id", "lease_epoch"})
    assert detail["attempts"][0].keys().isdisjoint({"attempt_id", "lease_epoch"})
