"""A token that is bound to a namespace sees nothing of the others."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from flowfabric.model.operations.access_secret import RotateSecret
from flowfabric.storage.minting import new_uuid
from flowfabric.wire.rights import Role
from flowfabric.wire.route import RECORD as RECORDS
from support.server import Api
from support.serving import Serve
from support.work import NOW, act, bind, claim, create, path

GETS = (
    (),
    ("state",),
    ("result",),
    ("pending-waitpoints",),
    ("detail",),
    ("history",),
    ("explain",),
    ("wait",),
    ("attempts", "0", "stream"),
    ("attempts", "0", "stream", "tail"),
    ("attempts", "0", "stream", "summary"),
    ("waitpoints", new_uuid(), "token"),
)
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


async def test_workers_leases_and_rates_leave_others_out(api: Api) -> None:
    await create(api, execution_id=f"{{fp:7}}:{new_uuid()}")
    mine = await create(api, execution_id=f"{{fp:7}}:{new_uuid()}", namespace="team", execution_kind="mine")
    registered = {"worker_instance_id": "one", "lanes": ["default"], "kinds": ["secret"]}
    assert (await api.post("/v1/workers/w/register", registered | {"namespace": "foreign"})).status == 200
    claimed = {"worker_instance_id": "one", "lanes": ["default"], "max_tasks": 5}
    assert len((await api.post("/v1/workers/w/tasks", claimed)).json["tasks"]) == 2
    assert (await api.post("/v1/workers/w/register", registered | {"namespace": "team"})).status == 200
    everything = (await api.get("/v1/workers")).json["workers"]
    assert [(each["namespace"], each["kinds"], each["leases_held"]) for each in everything] == [
        ("default", None, 2),
        ("foreign", ["secret"], 2),
        ("team", ["secret"], 2),
    ]
    assert (await api.get("/v1/stats")).json["rates"]["last_minute"]["claimed"] == 2

    bind(api, "team")
    (worker,) = (await api.get("/v1/workers")).json["workers"]
    assert (worker["namespace"], worker["leases_held"]) == ("team", 1)
    stats = (await api.get("/v1/stats")).json
    assert (stats["total"], stats["counts"]["active"]) == (1, 1)
    assert (stats["rates"]["last_minute"]["claimed"], stats["rates"]["last_minute"]["submitted"]) == (1, 1)
    forged = await api.get("/v1/workers", cursor="default a")
    assert [each["namespace"] for each in forged.json["workers"]] == ["team"]
    assert (await api.get(path(mine, "explain"))).status == 200


async def test_a_worker_cancels_what_it_holds_and_nothing_else(api: Api) -> None:
    execution_id = await create(api)
    bind(api, "", Role.WORKER)
    body = {"execution_id": execution_id, "reason": "x", "now": NOW}
    for source in ("operator_override", "lease_holder", "worker"):
        reply = await api.post(path(execution_id, "cancel"), body | {"source": source})
        assert (reply.status, reply.json["code"]) == (403, "forbidden")
    await act(api, await claim(api), "cancel")


async def mixed(api: Api, *, others: int = 5, mine: int = 4) -> tuple[list[str], list[str]]:
    """Create work of two namespaces in turns, all in one partition; returns that of `team`, and the rest."""
    own, foreign = [], []
    for _ in range(mine):
        foreign += [await create(api, execution_id=f"{{fp:7}}:{new_uuid()}") for _ in range(others)]
        own.append(await create(api, execution_id=f"{{fp:7}}:{new_uuid()}", namespace="team"))
    return own, foreign


LISTED: list[dict[str, Any]] = [
    {},
    {"order": "oldest"},
    {"state": "waiting"},
    {"lane": "default"},
    {"lane": "default", "state": "waiting"},
    {"partition": 7},
    {"order": "queue", "lane": "default"},
]


@pytest.mark.parametrize("query", LISTED)
async def test_pages_are_full_and_cursors_tell_nothing_of_others(api: Api, query: dict[str, Any]) -> None:
    mine, foreign = await mixed(api)
    bind(api, "team")
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = (await api.get("/v1/executions", **query, limit=2, cursor=cursor)).json
        seen += [each if isinstance(each, str) else each["execution_id"] for each in page["executions"]]
        cursor = page["next_cursor"]
        assert len(page["executions"]) == 2 or cursor is None, "a page is full when there is enough"
        spread = decoded(cursor or "")
        assert not [each for each in foreign if each in spread or each[-36:] in spread]
    assert sorted(seen) == sorted(mine)


def decoded(cursor: str) -> str:
    """Show a cursor as it is, and as what it may be in base64."""
    raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)) if cursor.isalnum() else b""
    return f"{cursor} {raw.decode('latin-1')}"


async def test_a_place_in_a_queue_can_neither_be_made_up_nor_handed_on(api: Api) -> None:
    await mixed(api, others=2, mine=2)
    query = {"order": "queue", "lane": "default", "limit": 1}
    everybody = (await api.get("/v1/executions", **query)).json["next_cursor"]
    bind(api, "team")
    mine = (await api.get("/v1/executions", **query)).json["next_cursor"]
    turned = mine[:-2] + ("AA" if mine[-2:] != "AA" else "BB")
    for wrong in (everybody, turned, mine[:20], mine + "A", "A" * 92, "queue0.{fp:7}:x", "x", "=" * 30):
        reply = await api.get("/v1/executions", **query, cursor=wrong)
        assert (reply.status, reply.json["field"]) == (400, "cursor"), wrong
    other_lane = {**query, "lane": "elsewhere"}
    assert (await api.get("/v1/executions", **other_lane, cursor=mine)).status == 400
    bind(api, "")
    assert (await api.get("/v1/executions", **query, cursor=mine)).status == 400


async def test_a_cursor_outlives_its_server_and_its_key(serve: Serve) -> None:
    api = await serve()
    await mixed(api, others=1, mine=3)
    query = {"order": "queue", "lane": "default", "limit": 2}
    first = (await api.get("/v1/executions", **query)).json
    another = await serve(store=api.server.store)
    rotation = RotateSecret(new_kid="k9", new_secret_hex="cd" * 32, grace_ms=60_000)
    await another.server.store.apply(rotation)
    rest = (await another.get("/v1/executions", **query, cursor=first["next_cursor"])).json
    ids = [each["execution_id"] for each in (*first["executions"], *rest["executions"])]
    assert len(set(ids)) == 4


async def test_records_of_a_queue_tell_nothing_of_others(api: Api) -> None:
    mine, foreign = await mixed(api, others=30, mine=3)
    bind(api, "team")
    after: list[Any] = [-(2**53 - 1), ""]
    seen: list[str] = []
    while after is not None:
        question = json.dumps({"ListQueue": {"lane_id": "default", "limit": 1, "after": after}})
        reply = await api.get("/v1/executions", headers={"accept": RECORDS}, question=question)
        assert not [each for each in foreign if each[-36:] in json.dumps(reply.json)]
        seen += [run[1] if isinstance(run, list) else run["execution_id"] for run in reply.json["runs"]]
        after = reply.json["next"]
    assert seen == mine


async def test_the_inbox_of_a_bound_token_is_full(api: Api) -> None:
    for namespace in ("default", "default", "team", "default", "team"):
        await create(api, namespace=namespace)
        await act(api, await claim(api), "suspend")
    bind(api, "team")
    page = (await api.get("/v1/waitpoints", limit=2)).json
    assert [each["namespace"] for each in page["waitpoints"]] == ["team", "team"]
