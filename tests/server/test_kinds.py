"""Kinds over HTTP: published, read, listed, deleted; and what submissions by name leave to them."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric import FlowFabric
from flowfabric.wire.rights import Role
from support.server import Api
from support.work import bind, create, path

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
KIND: dict[str, Any] = {
    "lane": "slow",
    "priority": 7,
    "tags": {"team": "web", "tier": "free"},
    "required_capabilities": ["gpu"],
    "fairness_key": "tenant-1",
    "fairness_weight": 5,
    "policy": {"retry_policy": {"max_retries": 3}},
    "input_schema": SCHEMA,
    "description": "Greet somebody.",
}


async def publish(api: Api, kind: str = "greet", **more: Any) -> Any:
    reply = await api.put(f"/v1/kinds/{kind}", KIND | more)
    assert reply.status == 200, reply.json
    return reply.json


async def submitted(api: Api, **body: Any) -> dict[str, Any]:
    reply = await api.post("/v1/submit", {"kind": "greet"} | body)
    assert reply.status == 201, reply.json
    detail: dict[str, Any] = (await api.get(path(reply.json["execution_id"], "detail"))).json
    return detail


async def test_a_kind_is_published_read_and_deleted(api: Api) -> None:
    assert await publish(api) == "Published"
    assert await publish(api, kind="greet") == "Unchanged"
    kind = (await api.get("/v1/kinds/greet")).json
    facts = {name: kind.pop(name) for name in ("published_at", "published_by", "digest")}
    assert kind == {"kind": "greet", "namespace": ""} | KIND
    assert isinstance(facts["published_at"], int)
    assert facts["published_by"] == "anonymous"
    assert len(facts["digest"]) == 64
    reply = await api.delete("/v1/kinds/greet")
    assert (reply.status, reply.json) == (200, "Deleted")
    gone = await api.get("/v1/kinds/greet")
    assert (gone.status, gone.json["code"]) == (404, "kind_not_found")
    assert (await api.delete("/v1/kinds/greet")).status == 404


async def test_what_a_kind_does_not_say_is_absent(api: Api) -> None:
    assert (await api.put("/v1/kinds/a%2Fb@2", {})).json == "Published"
    assert (await api.put("/v1/kinds/a%2Fb@2", {"policy": None, "lane": None})).json == "Unchanged"
    kind = (await api.get("/v1/kinds/a%2Fb@2")).json
    assert kind["kind"] == "a/b@2"
    assert not kind.keys() & {"lane", "priority", "policy", "input_schema", "description", "fairness_weight"}


async def test_lists_come_in_pages(api: Api) -> None:
    for namespace, name in (("", "c"), ("a", "x"), ("b", "y"), ("a", "w")):
        await publish(api, name, namespace=namespace)
    found: list[str] = []
    query: dict[str, Any] = {"limit": 1}
    for _ in range(4):
        page = (await api.get("/v1/kinds", **query)).json
        found += [kind["kind"] for kind in page["kinds"]]
        query["cursor"] = page["next_cursor"]
    assert (found, query["cursor"]) == (["c", "w", "x", "y"], None)
    mine = (await api.get("/v1/kinds", namespace="b")).json["kinds"]
    assert [kind["kind"] for kind in mine] == ["c", "y"]
    for cursor in ("x", "AA==", "executions1", "é"):
        refused = await api.get("/v1/kinds", cursor=cursor)
        assert (refused.status, refused.json["field"]) == (400, "cursor")


async def test_a_bound_token_sees_its_own_and_those_for_all(api: Api) -> None:
    await publish(api)
    await publish(api, "theirs", namespace="theirs")
    bind(api, "mine", Role.WORKER)
    await publish(api, lane="mine")
    assert (await api.get("/v1/kinds/greet")).json["lane"] == "mine"
    assert (await api.get("/v1/kinds/theirs")).status == 404
    assert (await api.get("/v1/kinds/theirs", namespace="theirs")).status == 404
    assert (await api.get("/v1/kinds", namespace="theirs")).json == {"kinds": [], "next_cursor": None}
    shown = [(kind["namespace"], kind["kind"]) for kind in (await api.get("/v1/kinds")).json["kinds"]]
    assert shown == [("", "greet"), ("mine", "greet")]
    for namespace in ("", "theirs"):
        assert (await api.put("/v1/kinds/greet", {"namespace": namespace})).status == 403
    bind(api, "mine", Role.OPERATOR)
    assert (await api.delete("/v1/kinds/theirs", namespace="theirs")).status == 403
    assert (await api.delete("/v1/kinds/greet")).json == "Deleted"
    assert (await api.delete("/v1/kinds/greet")).status == 404  # the one for all is not theirs to delete
    assert (await api.get("/v1/kinds/greet")).json["lane"] == "slow"


async def test_roles(api: Api) -> None:
    for role, put, get, delete in (
        (Role.READER, 403, 404, 403),
        (Role.SUBMITTER, 403, 404, 403),
        (Role.WORKER, 200, 200, 403),
        (Role.OPERATOR, 200, 200, 200),
    ):
        bind(api, "", role)
        assert (await api.put("/v1/kinds/greet", KIND)).status == put, role
        assert (await api.get("/v1/kinds/greet")).status == get, role
        assert (await api.get("/v1/kinds")).status == 200, role
        assert (await api.delete("/v1/kinds/greet")).status == delete, role


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"kind": "other"}, "kind"),
        ({"namespace": "a\n"}, "namespace"),
        ({"lane": "\n"}, "lane"),
        ({"priority": 9001}, "priority"),
        ({"priority": "high"}, "priority"),
        ({"tags": {"A B": "x"}}, "tags"),
        ({"required_capabilities": ["a b"]}, "required_capabilities"),
        ({"fairness_weight": 0}, "fairness_weight"),
        ({"fairness_weight": 1001}, "fairness_weight"),
        ({"fairness_key": "x" * 257}, "fairness_key"),
        ({"policy": []}, "policy"),
        ({"policy": {"retry_policy": 1}}, "policy"),
        ({"input_schema": 1}, "input_schema"),
        ({"input_schema": {"title": "x" * 65_536}}, "input_schema"),
        ({"description": "x" * 4_097}, "description"),
    ],
)
async def test_what_is_wrong_is_named(api: Api, wrong: dict[str, Any], field: str) -> None:
    reply = await api.put("/v1/kinds/greet", wrong)
    assert reply.status in {400, 422}, reply.json
    assert reply.json["field"] == field, reply.json
    assert (await api.get("/v1/kinds/greet")).status == 404


async def test_a_submission_leaves_to_the_kind_what_it_does_not_say(api: Api) -> None:
    await publish(api)
    detail = await submitted(api)
    assert (detail["lane_id"], detail["priority"]) == ("slow", 7)
    assert detail["tags"] == {"team": "web", "tier": "free"}
    assert detail["policy"] == {
        "retry_policy": {"max_retries": 3},
        "routing_requirements": {"required_capabilities": ["gpu"]},
    }


async def test_what_a_submission_says_goes_before_the_kind(api: Api) -> None:
    await publish(api)
    policy = {"retry_policy": {"max_retries": 0}, "routing_requirements": {}}
    detail = await submitted(api, lane="fast", priority=0, tags={"tier": "paid"}, policy=policy)
    assert (detail["lane_id"], detail["priority"]) == ("fast", 0)
    assert detail["tags"] == {"team": "web", "tier": "paid"}
    assert detail["policy"] == policy
    detail = await submitted(api, policy={"timeout_policy": {"attempt_timeout_ms": 5}})
    assert sorted(detail["policy"]) == ["retry_policy", "routing_requirements", "timeout_policy"]


async def test_a_policy_may_say_the_priority_or_nothing(api: Api) -> None:
    await publish(api)
    assert (await submitted(api, policy={"priority": 3}))["priority"] == 3
    detail = await submitted(api, policy={})
    assert (detail["priority"], detail["policy"]["retry_policy"]) == (7, {"max_retries": 3})
    refused = await api.post("/v1/submit", {"kind": "greet", "policy": []})
    assert (refused.status, refused.json["field"]) == (400, "policy")


async def test_defaults_can_be_turned_off(api: Api) -> None:
    await publish(api)
    detail = await submitted(api, kind_defaults=False)
    assert (detail["lane_id"], detail["priority"], detail["tags"]) == ("default", 0, {})
    assert not detail["policy"]


async def test_the_kind_of_the_namespace_goes_before_the_one_for_all(api: Api) -> None:
    await publish(api)
    await publish(api, namespace="mine", lane="mine")
    assert (await submitted(api, namespace="mine"))["lane_id"] == "mine"
    assert (await submitted(api, namespace="other"))["lane_id"] == "slow"


async def test_a_published_change_holds_at_once(api: Api) -> None:
    assert (await submitted(api))["lane_id"] == "default"
    await publish(api)
    assert (await submitted(api))["lane_id"] == "slow"
    await api.delete("/v1/kinds/greet")
    assert (await submitted(api))["lane_id"] == "default"


async def test_a_batch_resolves_each_item(api: Api) -> None:
    await publish(api)
    await publish(api, "resize", lane="images")
    items: list[dict[str, Any]] = [
        {"kind": "greet"},
        {"kind": "resize"},
        {"kind": "unknown"},
        {"kind": "greet", "kind_defaults": False},
        {"kind": ""},
        {"kind": "greet", "tags": {f"k{n}": "" for n in range(64)}},
    ]
    results = (await api.post("/v1/submit/batch", {"items": items})).json["results"]
    lanes = [
        (await api.get(path(each["execution_id"]))).json["lane_id"]
        if "execution_id" in each
        else each["field"]
        for each in results
    ]
    assert lanes == ["slow", "images", "default", "default", "kind", "tags"]


async def test_weights_are_checked_and_classic_create_stays_as_it_is(api: Api) -> None:
    await publish(api)
    assert (await submitted(api, fairness_weight=1000))["lane_id"] == "slow"
    for weight in (0, 1001, "much"):
        reply = await api.post("/v1/submit", {"kind": "greet", "fairness_weight": weight})
        assert (reply.status, reply.json["field"]) == (422, "fairness_weight")
    made = await create(api, execution_kind="greet")
    assert (await api.get(path(made))).json["lane_id"] == "default"


async def test_a_task_with_retries_is_retried_on_its_lane_over_plain_http(api: Api) -> None:
    app = FlowFabric(api.base)
    tries: list[str] = []

    @app.task(lane="slow", retries=1, backoff=0)
    async def flaky(name: str) -> str:
        tries.append(name)
        if len(tries) == 1:
            raise ConnectionError("not this time")
        return name

    async with app.worker():
        reply = await api.post("/v1/submit", {"kind": "flaky", "input": {"name": "Ada"}})
        execution_id = reply.json["execution_id"]
        ended = (await api.get(path(execution_id, "wait"), timeout_ms=20_000)).json
    assert (ended["public_state"], ended["result"], tries) == ("completed", "Ada", ["Ada", "Ada"])
    assert (await api.get(path(execution_id))).json["lane_id"] == "slow"
