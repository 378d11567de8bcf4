"""Bytes that are no text, bodies that are compressed, and answers that cannot be written."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from flowfabric.server.http.call import Response, ServerCall
from flowfabric.server.http.gate import Gate
from flowfabric.server.http.openapi import document
from support.server import Api
from support.serving import Serve

pytestmark = pytest.mark.one_store

BAD = ("%FF", "%C3%28", "a%80b", "%ED%A0%80", "%C0%AF")


def routes() -> list[tuple[str, str]]:
    return [(method.upper(), path) for path, many in document()["paths"].items() for method in many]


@pytest.mark.parametrize("bad", BAD)
async def test_a_path_that_is_no_text_is_400_on_every_route(api: Api, bad: str) -> None:
    named = [(method, path) for method, path in routes() if "{" in path]
    assert len(named) > 20
    for method, path in named:
        where = "/".join(bad if part.startswith("{") else part for part in path.split("/"))
        reply = await api.call(method, where, {} if method != "GET" else None)
        assert (reply.status, reply.json["code"]) == (400, "invalid_input"), (method, where, reply)
        assert reply.json["kind"] == "invalid_input"
        assert reply.json["field"]


@pytest.mark.parametrize("bad", BAD)
async def test_a_query_that_is_no_text_is_400_on_every_route(api: Api, bad: str) -> None:
    for method, path in routes():
        where = "/".join("x" if part.startswith("{") else part for part in path.split("/"))
        reply = await api.call(method, f"{where}?a=1&lane={bad}", {} if method != "GET" else None)
        assert (reply.status, reply.json["code"]) == (400, "invalid_input"), (method, where, reply)
        assert reply.json["field"] == "lane"
    assert (await api.get(f"/livez?{bad}=1")).status == 400


@pytest.mark.parametrize("coding", ["gzip", "br", "identity, gzip", "x"])
async def test_a_compressed_body_is_415(api: Api, coding: str) -> None:
    for where, body in (("/v1/submit", {"kind": "x"}), ("/links/e30.e30", None)):
        reply = await api.call("POST", where, body, headers={"Content-Encoding": coding})
        assert (reply.status, reply.json["code"]) == (415, "unsupported_media_type")
        assert reply.headers["accept-encoding"] == "identity"


async def test_identity_is_no_compression(api: Api) -> None:
    reply = await api.call("POST", "/v1/submit", {"kind": "x"}, headers={"Content-Encoding": "Identity"})
    assert reply.status == 201


async def broken(_: ServerCall) -> Response:
    """Answer with what no JSON holds."""
    return Response({"text": "\ud800"})


async def odd_header(_: ServerCall) -> Response:
    """Answer with a header that cannot be sent."""
    return Response({}, headers=(("x-odd", "a\r\nb"),))


async def broken_off(_: ServerCall) -> Response:
    """Begin an answer and fail."""

    async def pieces() -> AsyncGenerator[bytes, None]:
        yield b"[1,"
        raise RuntimeError("no more")

    return Response(pieces=pieces())


def replace_handler(api: Api, monkeypatch: pytest.MonkeyPatch, handler: Any) -> None:
    """Let `/livez` do something else."""
    gate = Gate(api.server)
    gate._handlers["livez"] = handler
    monkeypatch.setattr(api.server.app, "_app", gate)


@pytest.mark.parametrize("handler", [broken, odd_header])
async def test_an_answer_that_cannot_be_written_is_a_500_with_a_body(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, handler: Any
) -> None:
    api = await serve()
    replace_handler(api, monkeypatch, handler)
    with caplog.at_level(logging.ERROR, "flowfabric.server"):
        reply = await api.get("/livez")
    assert (reply.status, reply.json["code"], reply.json["kind"]) == (500, "internal_error", "internal_error")
    assert reply.json["request_id"] == reply.headers["x-request-id"]
    assert "a defect while serving GET /livez" in caplog.text
    counted = (await api.get("/metrics")).raw.decode()
    assert 'ff_http_requests_total{method="GET",path="/livez",status="500"} 1.0' in counted


async def test_an_answer_that_breaks_off_is_logged_and_counted(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    api = await serve()
    replace_handler(api, monkeypatch, broken_off)
    with caplog.at_level(logging.ERROR, "flowfabric.server"), pytest.raises(Exception, match="payload"):
        await api.get("/livez")
    assert "an answer broke off: GET /livez" in caplog.text
    counted = (await api.get("/metrics")).raw.decode()
    assert 'ff_http_requests_total{method="GET",path="/livez",status="500"} 1.0' in counted
