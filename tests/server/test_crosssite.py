"""Pages of other sites: what they may make a browser do here."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.server.settings import Settings
from support.server import Api
from support.serving import Serve
from support.work import act, claim, create, path

pytestmark = pytest.mark.one_store

EVIL = "https://evil.example"
PAGE = "https://app.example"
FOREIGN: list[dict[str, str]] = [
    {"Origin": EVIL},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": EVIL, "Sec-Fetch-Site": "cross-site"},
    {"Origin": EVIL, "Sec-Fetch-Site": "same-origin"},
    {"Origin": EVIL, "Sec-Fetch-Site": "same-site"},
    {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "null", "Sec-Fetch-Site": "same-site"},
    {"Origin": "null", "Sec-Fetch-Site": "none"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "nonsense"},
]
FRIENDLY: list[dict[str, str]] = [
    {},
    {"Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "none"},
    {"Origin": "OWN", "Sec-Fetch-Site": "same-origin"},
    {"Origin": "OWN"},
    {"Origin": "null", "Sec-Fetch-Site": "same-origin"},  # the form of an approval link
]


def own(api: Api, headers: dict[str, str]) -> dict[str, str]:
    return {name: api.base if value == "OWN" else value for name, value in headers.items()}


@pytest.mark.parametrize("headers", FOREIGN)
async def test_other_sites_change_nothing(api: Api, headers: dict[str, str]) -> None:
    execution_id = await create(api)
    for method, where, body in (
        ("POST", "/v1/submit", {"kind": "x"}),
        ("POST", path(execution_id, "cancel"), None),
        ("POST", path(execution_id, "replay"), None),
        ("PUT", path(execution_id, "priority"), {"priority": 1}),
        ("DELETE", "/v1/admin/tokens/0b8f2a52-5f0e-4c41-9a7d-2f1f6f1f9a10", None),
        ("POST", "/no/such/path", None),
    ):
        reply = await api.call(method, where, body, headers=headers)
        assert reply.status == 403, (method, where, reply)
        assert (reply.json["code"], reply.json["kind"]) == ("forbidden", "forbidden")
    assert (await api.get(path(execution_id))).json["public_state"] == "waiting"
    assert (await api.call("GET", path(execution_id), headers=headers)).status == 200


@pytest.mark.parametrize("headers", [each for each in FOREIGN if each != {"Origin": "null"}])
async def test_nor_do_they_use_links(api: Api, headers: dict[str, str]) -> None:
    assert (await api.call("POST", "/links/e30.e30", headers=headers)).status == 403


@pytest.mark.parametrize("site", [{"Sec-Fetch-Site": "same-origin"}, {}])
async def test_the_form_of_a_link_works_as_browsers_send_it(api: Api, site: dict[str, str]) -> None:
    execution_id = await create(api)
    waitpoint = (await act(api, await claim(api), "suspend", signals=["approve"]))["Suspended"]
    made = await api.post(
        path(execution_id, "waitpoints", waitpoint["waitpoint_id"], "link"),
        {"signal_name": "approve", "expires_in_ms": 60_000},
    )
    # What Chromium 156 sends over TLS or to its own machine, and without the site over plain HTTP to another one.
    sent = {
        "Origin": "null",
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "text/html",
        **site,
    }
    where = "/links/" + made.json["url"].rpartition("/")[2]
    reply = await api.call("POST", where, headers=sent)
    assert (reply.status, b"Thank you" in reply.raw) == (200, True)
    assert (await api.get(path(execution_id))).json["public_state"] == "waiting"


async def test_they_are_refused_before_their_body_is_read(api: Api) -> None:
    long = {"Origin": EVIL, "Content-Type": "text/plain"}
    reply = await api.call("POST", "/v1/submit", data=b"x" * 3_000_000, headers=long)
    assert reply.status == 403


@pytest.mark.parametrize("headers", FRIENDLY)
async def test_others_may(api: Api, headers: dict[str, str]) -> None:
    reply = await api.call("POST", "/v1/submit", {"kind": "x"}, headers=own(api, headers))
    assert reply.status == 201


@pytest.mark.parametrize("headers", [{"Origin": PAGE}, {"Origin": PAGE, "Sec-Fetch-Site": "cross-site"}])
async def test_cors_lets_them_in(serve: Serve, headers: dict[str, str]) -> None:
    for origins, status in (((PAGE,), 201), (("*",), 201), (("https://other.example",), 403), ((), 403)):
        api = await serve(settings=Settings(cors_origins=origins))
        reply = await api.call("POST", "/v1/submit", {"kind": "x"}, headers=headers)
        assert reply.status == status


async def test_the_public_address_is_our_own(serve: Serve) -> None:
    api = await serve(settings=Settings(public_url="https://ff.example/base"))
    for origin, status in (("https://ff.example", 201), ("http://ff.example", 403), (EVIL, 403)):
        headers = {"Origin": origin, "Sec-Fetch-Site": "same-origin"}
        assert (await api.call("POST", "/v1/submit", {"kind": "x"}, headers=headers)).status == status


async def test_a_refusal_comes_with_a_token_and_without(serve: Serve) -> None:
    api = await serve(token="t", api_token="t")
    headers: dict[str, Any] = {"Origin": EVIL}
    for more in ({}, {"Authorization": ""}):
        reply = await api.call("POST", "/v1/submit", {"kind": "x"}, headers=headers | more)
        assert reply.status == 403
