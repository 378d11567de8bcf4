"""Every route, walked by a token that is bound to another namespace: nothing of what it names is there."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from flowfabric.model.operations.suspend_waitpoint import ListWaitpoints
from flowfabric.storage.minting import new_uuid
from flowfabric.wire import routes
from flowfabric.wire.rights import Right, Role
from flowfabric.wire.route import RECORD, Route
from support.server import Api, Reply
from support.work import act, bind, claim, create

UNKNOWN = "{fp:1}:00000000-0000-4000-8000-000000000001"


def filled(route: Route, execution_id: str, waitpoint_id: str) -> str:
    values = {
        "id": execution_id,
        "waitpoint_id": waitpoint_id,
        "idx": "0",
        "name": "s",
        "lane": "default",
        "worker_id": "w",
        "token_id": new_uuid(),
        "kind": "k",
    }
    parts = [
        quote(values[part[1:-1]], safe="") if part.startswith("{") else part for part in route.path.split("/")
    ]
    return "/".join(parts)


async def ask(api: Api, route: Route, where: str, execution_id: str, *, records: bool) -> Reply:
    body = route.example
    if body is not None and "execution_id" in body:
        body = body | {"execution_id": execution_id}
    headers = {"Accept": RECORD} if records else {}
    query: dict[str, Any] = {}
    if records and route.questions:
        query["question"] = json.dumps({route.questions[0].__name__: {}})
    return await api.call(route.method, where, body, headers=headers, **query)


async def waiting(api: Api) -> tuple[str, str]:
    """Make an execution that waits for a signal; return it and its waitpoint."""
    execution_id = await create(api)
    await act(api, await claim(api), "suspend")
    page = await api.store.read(ListWaitpoints(execution_id=execution_id))
    return execution_id, page.waitpoints[0].waitpoint_id


@pytest.mark.parametrize("records", [False, True], ids=["json", "records"])
async def test_no_route_shows_or_touches_an_execution_of_others(api: Api, records: bool) -> None:
    execution_id, waitpoint_id = await waiting(api)
    before = await api.store.dump()
    bind(api, "other", Role.ADMIN)
    walked = [route for route in routes() if route.names_execution]
    assert len(walked) > 30
    for route in walked:
        name = f"{route.method} {route.path}"
        there = await ask(
            api, route, filled(route, execution_id, waitpoint_id), execution_id, records=records
        )
        assert (there.status, there.json["code"]) == (404, "execution_not_found"), (name, there)
        nowhere = await ask(api, route, filled(route, UNKNOWN, waitpoint_id), UNKNOWN, records=records)
        assert nowhere.status == 404, name
        assert nowhere.json | {"request_id": ""} == there.json | {"request_id": ""}, name
    assert await api.store.dump() == before


async def test_the_namespace_is_looked_at_before_anything_else(api: Api) -> None:
    execution_id, waitpoint_id = await waiting(api)
    bind(api, "other", Role.ADMIN)
    for route in routes():
        if route.names_execution:
            where = filled(route, execution_id, waitpoint_id)
            reply = await api.call(
                route.method, where, data=b"not json", headers={"Accept": RECORD}, question="nonsense"
            )
            assert (reply.status, reply.json["code"]) == (404, "execution_not_found"), route.path


async def test_their_owner_gets_every_one_of_them(api: Api) -> None:
    execution_id, waitpoint_id = await waiting(api)
    bind(api, "demo", Role.ADMIN)
    for route in routes():
        if route.names_execution:
            where = filled(route, execution_id, waitpoint_id)
            reply = await api.call(route.method, where, headers={"Accept": RECORD}, question="nonsense")
            assert reply.status in {400, 406, 415, 422}, (route.path, reply)


async def test_what_concerns_all_namespaces_is_closed_to_bound_tokens(api: Api) -> None:
    bind(api, "other", Role.ADMIN)
    closed = [
        route
        for route in routes()
        if not route.names_execution and not route.bound and route.right is not Right.NOTHING
    ]
    assert {route.path for route in closed} >= {"/v1/admin/tokens", "/v1/lanes/{lane}/pause"}
    for route in closed:
        reply = await ask(api, route, filled(route, UNKNOWN, UNKNOWN), UNKNOWN, records=False)
        assert (reply.status, reply.json["code"]) == (403, "forbidden"), route.path


REQUIRED: dict[str, dict[str, Any]] = {
    "ListQueue": {"lane_id": "default"},
    "ListPartition": {"partition": 7},
    "FindKinds": {"wanted": [["demo", "k"]]},
    "FindExecutions": {"prefix": "<the first>"},
    "CountLeases": {"worker_instance_ids": ["w-1"]},
}


async def test_records_of_lists_leave_others_out(api: Api) -> None:
    execution_id, _ = await waiting(api)
    await create(api)
    bind(api, "other", Role.ADMIN)
    for route in routes():
        if route.names_execution:
            continue
        where = route.path
        for question in route.questions:
            text = json.dumps({question.__name__: REQUIRED.get(question.__name__, {})})
            text = text.replace("<the first>", execution_id[-36:-24])
            path = where.replace("{worker_id}", "w-1").replace("{kind}", "k")
            reply = await api.call("GET", path, headers={"Accept": RECORD}, question=text)
            assert reply.status in {200, 404}, (question, reply)
            assert "{fp:" not in reply.raw.decode(), (question, reply.json)
