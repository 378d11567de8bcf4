"""Small print of HTTP: slashes, methods, empty answers, and names of fields as their sender calls them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.server import Api
from support.work import act, claim, create, path

pytestmark = pytest.mark.one_store


@pytest.mark.parametrize(
    "odd",
    [
        "/healthz/",
        "//healthz",
        "/v1/executions/",
        "/v1//executions",
        "//",
        "/v1",
        "/v1/stats//",
        "/%68ealthz",
    ],
)
async def test_a_slash_too_many_is_another_path(api: Api, odd: str) -> None:
    reply = await api.get(odd)
    assert (reply.status, reply.json["code"]) == (404, "not_found")


async def test_a_wrong_method_says_which_are_right(api: Api) -> None:
    execution_id = await create(api)
    for where, methods in (
        ("/v1/executions", "GET, HEAD, POST"),
        ("/healthz", "GET, HEAD"),
        ("/v1/submit", "POST"),
        (path(execution_id, "priority"), "PUT"),
        (path(execution_id, "steps"), "GET, HEAD, POST"),
    ):
        reply = await api.call("PATCH", where)
        assert (reply.status, reply.headers["allow"], reply.json["kind"]) == (
            405,
            methods,
            "method_not_allowed",
        )


async def test_head_is_get_without_the_body(api: Api) -> None:
    execution_id = await create(api)
    for where in ("/healthz", "/v1/executions", path(execution_id), path(execution_id, "state"), "/metrics"):
        reply = await api.call("HEAD", where)
        assert (reply.status, reply.raw) == (200, b"")
        assert int(reply.headers["content-length"]) > 0
    assert (await api.call("HEAD", path(execution_id, "events"))).status == 200
    assert (await api.call("HEAD", "/nowhere")).status == 404


async def test_an_answer_without_content_has_none(api: Api) -> None:
    body = {"lane_id": "empty", "worker_instance_id": "w-1", "grant_ttl_ms": 5_000}
    reply = await api.post("/v1/workers/w/claim", body)
    assert (reply.status, reply.raw) == (204, b"")
    assert not {"content-type", "content-length"} & reply.headers.keys()


async def test_every_refusal_of_our_routes_names_its_kind(api: Api) -> None:
    odd = (
        await api.call("POST", "/v1/submit", data=b"{}"),
        await api.call("POST", "/v1/submit", data=b"{", headers={"Content-Type": "application/json"}),
        await api.post("/v1/submit", {}),
        await api.post("/v1/submit", {"kind": ""}),
        await api.get("/v1/lanes?limit=0"),
        await api.get("/nowhere"),
    )
    for reply in odd:
        assert reply.json["kind"] == reply.json["code"], reply
        assert {"error", "retryable", "request_id"} <= reply.json.keys()
        assert reply.headers["x-request-id"] == reply.json["request_id"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"kind": ""}, "kind"),
        ({"kind": "k", "lane": "é"}, "lane"),
        ({"kind": "k", "lane": ""}, "lane"),
        ({"kind": "k", "creator": "\x00"}, "creator"),
        ({"kind": "k", "namespace": ""}, "namespace"),
        ({"kind": "k", "tags": {"Big": "x"}}, "tags"),
        ({"kind": "k", "policy": []}, "policy"),
        ({"kind": "k", "priority": "1"}, "priority"),
        ({"kind": "k", "input_base64": "%"}, "input_base64"),
    ],
)
async def test_a_field_is_called_what_its_sender_calls_it(api: Api, body: dict[str, Any], field: str) -> None:
    reply = await api.post("/v1/submit", body)
    assert (reply.status in {400, 422}, reply.json["field"]) == (True, field), reply
    assert field in reply.json["error"]
    batch = await api.post("/v1/submit/batch", {"items": [body, {"kind": "fine"}]})
    assert [item.get("field") for item in batch.json["results"]] == [field, None]


@pytest.mark.parametrize(
    "data",
    [b"{", b"{} x", b'{"lane":1', b'{"lane":1} x', b'{"x":"\xff"}', b'{"kind":"k","input":["\xff"]}', b""],
)
async def test_a_fault_of_syntax_is_named_before_one_of_shape(api: Api, data: bytes) -> None:
    json = {"Content-Type": "application/json"}
    for where in ("/v1/submit", "/v1/executions", "/v1/workers/w/claim"):
        reply = await api.call("POST", where, data=data or b" ", headers=json)
        assert (reply.status, reply.json["error"][:25]) == (400, "invalid JSON: Bad Request")


async def test_a_step_has_a_name(api: Api) -> None:
    await create(api)
    task = await claim(api)
    body = {"fence": task["fence"], "name": "", "result": 1}
    assert (await api.post(path(task["execution_id"], "steps"), body)).json["field"] == "name"


async def test_an_id_that_was_never_sent_is_refused(api: Api) -> None:
    execution_id = await create(api)
    events = path(execution_id, "events")
    for odd in ("99.0.0-0", "2.0.0-0"):
        reply = await api.call("GET", events, headers={"Last-Event-ID": odd})
        assert (reply.status, reply.json["field"]) == (400, "last_event_id")
    task = await claim(api)
    await act(api, task, "complete")
    async with asyncio.timeout(10):
        reply = await api.call("GET", events, headers={"Last-Event-ID": "2.0.0-0"})
    assert b"event: end" in reply.raw
