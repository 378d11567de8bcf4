"""Other origins."""

from __future__ import annotations

import pytest

from flowfabric.server.settings import Settings
from support.server import Api, Reply
from support.serving import Serve

pytestmark = pytest.mark.one_store

PAGE = "https://app.example"


def with_origins(*origins: str, token: str = "") -> Settings:
    return Settings(cors_origins=origins, api_token=token)


async def preflight(api: Api, where: str = "/v1/submit", origin: str = PAGE) -> Reply:
    asked = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type,authorization",
    }
    return await api.call("OPTIONS", where, headers=asked)


def allowing(reply: Reply) -> dict[str, str]:
    return {name: value for name, value in reply.headers.items() if name.startswith("access-control-")}


@pytest.mark.parametrize("where", ["/v1/submit", "/healthz", "/no/such/path", "/metrics"])
async def test_unset_means_nobody_else(serve: Serve, where: str) -> None:
    api = await serve(api_token="t")
    reply = await preflight(api, where)
    assert (reply.status, allowing(reply), reply.raw) == (200, {}, b"")
    assert not allowing(await api.call("GET", "/healthz", headers={"Origin": PAGE}))


async def test_a_star_means_everybody(serve: Serve) -> None:
    api = await serve(settings=with_origins("https://other.example", "*"))
    reply = await preflight(api)
    assert reply.status == 200
    assert allowing(reply) == {
        "access-control-allow-origin": "*",
        "access-control-allow-methods": "*",
        "access-control-allow-headers": "*",
    }
    plain = await api.call("GET", "/healthz", headers={"Origin": PAGE})
    assert allowing(plain) == {"access-control-allow-origin": "*", "access-control-expose-headers": "*"}
    counted = await api.call("GET", "/metrics", headers={"Origin": PAGE})
    assert (counted.status, allowing(counted), allowing(await preflight(api, "/metrics"))) == (200, {}, {})


async def test_a_list_names_exact_origins(serve: Serve) -> None:
    api = await serve(settings=with_origins(PAGE, "http://localhost:5173"))
    reply = await preflight(api)
    assert allowing(reply) == {
        "access-control-allow-origin": PAGE,
        "access-control-allow-methods": "GET,POST,PUT,DELETE",
        "access-control-allow-headers": "content-type",
    }
    for stranger in ("https://app.example.evil", "http://app.example", "https://app.example:8443", "null"):
        refused = await preflight(api, origin=stranger)
        assert (refused.status, allowing(refused)) == (200, {})
        assert "origin" in refused.headers["vary"]
        assert not allowing(await api.call("GET", "/healthz", headers={"Origin": stranger}))


async def test_with_a_token_its_header_may_be_sent_and_refusals_can_be_read(serve: Serve) -> None:
    api = await serve(settings=with_origins(PAGE, token="t"))
    assert (await preflight(api)).headers["access-control-allow-headers"] == "content-type,authorization"
    refused = await api.call("GET", "/v1/lanes", headers={"Origin": PAGE})
    assert refused.status == 401
    assert refused.headers["access-control-allow-origin"] == PAGE
    assert "access-control-allow-credentials" not in refused.headers
