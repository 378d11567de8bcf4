"""Errors cross HTTP as what they are; secrets cross nothing."""

from __future__ import annotations

import logging

import msgspec
import pytest
from aiohttp import web

from flowfabric.client import HttpClient
from flowfabric.client.address import read_address
from flowfabric.client.failures import failure
from flowfabric.model.errors import BY_CODE, FlowFabricError, Unauthorized, from_code
from flowfabric.model.operations.lane import ListLanes
from flowfabric.storage.sqlite import SqliteStore
from flowfabric.wire.errors import from_engine
from support.over_http import served
from support.stub import QUICK, refusal, stubbed

SECRET = "a-very-secret-token"


@pytest.mark.parametrize("classic", [False, True])
@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_every_code_comes_back_as_its_class(code: str, classic: bool) -> None:
    error = from_code(code, "a sentence", "a_field", ("one", "two"))
    refusal = from_engine(error, classic=classic)
    back = failure(refusal.status, msgspec.json.encode(refusal.body("r")))
    assert type(back) is BY_CODE[code]
    assert (back.field, back.details) == ("a_field", ("one", "two"))
    assert back.text in {"a sentence", error.message}


@pytest.mark.parametrize("code", ["unreachable", "unreplicated"])
def test_what_may_have_been_done_is_not_repeated_blindly(code: str) -> None:
    """504: the client repeats only what is safe to repeat."""
    refusal = from_engine(from_code(code), classic=False)
    assert (refusal.status, refusal.retryable) == (504, True)


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [
        (400, "invalid_input", False),
        (401, "unauthorized", False),
        (403, "unauthorized", False),
        (404, "not_found", False),
        (413, "payload_too_large", False),
        (429, "resource_exhausted", True),
        (500, "internal_error", False),
        (502, "unreachable", True),
        (503, "unreachable", True),
        (504, "unreachable", True),
        (302, "internal_error", False),
    ],
)
@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'{"code": "new_code"}', b"\xff", b"[" * 100_000])
def test_what_is_not_ours_is_told_by_its_status(status: int, code: str, retryable: bool, body: bytes) -> None:
    error = failure(status, body)
    assert (error.code, error.retryable) == (code, retryable)


async def test_a_shape_that_is_not_known_is_no_crash() -> None:
    async with stubbed() as stub, await HttpClient.open(stub.url, limits=QUICK) as client:
        for body in (b"", b"nope", b'{"x":1}'):
            stub.answers = [web.Response(body=body)]
            with pytest.raises(FlowFabricError) as caught:
                await client.read(ListLanes())
            assert caught.value.code == "unreachable"


@pytest.mark.parametrize(
    "url", ["http://", "ftp://x", "http://h:x", "http://h?a=1", "http://h#f", "localhost:9090", "http://[::1"]
)
async def test_bad_urls_are_named(url: str) -> None:
    with pytest.raises(FlowFabricError) as caught:
        await HttpClient.open(url)
    assert caught.value.field == "url"


def test_the_token_may_stand_in_the_url() -> None:
    assert read_address("http://:t%40k@h:1/base/").token == "t@k"
    assert read_address("http://tok@h").token == "tok"
    assert read_address("http://tok@h", "other").token == "other"
    assert read_address("https://[::1]:9/x/").base == "https://[::1]:9/x"
    with pytest.raises(FlowFabricError):
        read_address("http://h", "a\nb")


async def test_a_token_is_sent_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    store = await SqliteStore.open(":memory:")
    async with served(store, api_token=SECRET) as url:
        inside = url.replace("://", f"://:{SECRET}@")
        async with await HttpClient.open(inside, limits=QUICK) as client:
            assert await client.read(ListLanes()) == ()
            shown = [repr(client), str(client), repr(client._transport), repr(client._address)]
            assert repr(client._address) != ""
        with pytest.raises(Unauthorized) as caught:
            await HttpClient.open(url, token="wrong-" + SECRET)
        shown += [str(caught.value), repr(caught.value)]
    await store.close()
    async with stubbed() as stub, await HttpClient.open(stub.url, token=SECRET, limits=QUICK) as client:
        stub.answers = [
            refusal(503, "store_busy", retryable=True),
            refusal(400, "invalid_input", retryable=False),
        ]
        with pytest.raises(FlowFabricError) as refused:
            await client.read(ListLanes())
        assert stub.headers[0]["Authorization"] == f"Bearer {SECRET}"
        shown.append(repr(refused.value))
    assert SECRET not in "".join(shown) + caplog.text
