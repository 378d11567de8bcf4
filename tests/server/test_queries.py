"""Queries: numbers are decimal digits, a parameter comes once, and whatever is wrong is named."""

from __future__ import annotations

import pytest

from support.server import Api
from support.work import create, path

pytestmark = pytest.mark.one_store

ODD_NUMBERS = (
    "7.0",
    "1e3",
    "null",
    "",
    "x",
    "0x10",
    "7_0",
    "%2B7",
    "+7",
    "%C2%B2",
    "7%20",
    "1" * 30,
    "-1",
    "true",
)
NUMBERS = (
    ("/v1/executions", "partition"),
    ("/v1/executions", "limit"),
    ("/v1/executions", "created_after"),
    ("/v1/executions", "created_before"),
    ("/v1/lanes", "limit"),
    ("/v1/workers", "limit"),
    ("/v1/waitpoints", "limit"),
    ("{}/history", "limit"),
    ("{}/wait", "timeout_ms"),
    ("{}/steps", "limit"),
    ("{}/pending-waitpoints", "limit"),
    ("{}/attempts/0/stream", "limit"),
    ("{}/attempts/0/stream/tail", "limit"),
    ("{}/attempts/0/stream/tail", "block_ms"),
)


@pytest.mark.parametrize(("route", "name"), NUMBERS)
async def test_numbers_are_decimal_digits(api: Api, route: str, name: str) -> None:
    where = route.format(path(await create(api)))
    for odd in ODD_NUMBERS:
        reply = await api.get(f"{where}?{name}={odd}")
        assert (odd, reply.status, reply.json.get("field")) == (odd, 400, name), reply
        assert reply.json["code"] == "invalid_input"
    assert (await api.get(f"{where}?{name}=0007")).status == 200


async def test_a_parameter_comes_once_unless_it_may_be_repeated(api: Api) -> None:
    reply = await api.get("/v1/executions?limit=1&limit=2")
    assert (reply.status, reply.json["field"]) == (400, "limit")
    assert (await api.get("/v1/executions?state=waiting&state=active")).status == 200
    assert (await api.get("/v1/executions?unknown=1&unknown=2")).status == 200


async def test_a_query_has_a_limit(api: Api) -> None:
    reply = await api.get("/v1/executions?" + "&".join(["x=1"] * 1_001))
    assert (reply.status, reply.json["code"]) == (400, "invalid_input")


async def test_a_switch_is_true_or_false(api: Api) -> None:
    replay = path(await create(api), "replay")
    for odd in ("yes", "", "2", "null"):
        reply = await api.post(f"{replay}?keep_steps={odd}")
        assert (reply.status, reply.json["field"]) == (400, "keep_steps")
    for value in ("true", "1", "false", "0"):
        assert (await api.post(f"{replay}?keep_steps={value}")).json["code"] == "execution_not_terminal"


async def test_text_is_read_as_utf8(api: Api) -> None:
    await create(api, namespace="größe")
    reply = await api.get("/v1/executions?namespace=gr%C3%B6%C3%9Fe")
    assert len(reply.json["executions"]) == 1, reply
