"""Tokens and the waitpoint secret, as administrators handle them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.model.operations.access_secret import ListKids, RotateSecret
from flowfabric.server.settings import Settings
from flowfabric.storage.minting import new_uuid
from support.server import Api, Reply
from support.serving import Serve

ROTATE = "/v1/admin/rotate-waitpoint-secret"
SECRET = "ab" * 32


async def rotate(api: Api, kid: Any = "k2", secret: Any = SECRET) -> Reply:
    return await api.post(ROTATE, {"new_kid": kid, "new_secret_hex": secret})


async def test_tokens_are_created_listed_and_deleted(api: Api) -> None:
    later = api.store.now() + 60_000
    made = await api.post(
        "/v1/admin/tokens", {"name": "ci", "role": "submitter", "namespace": "ns", "expires_at": later}
    )
    assert made.status == 201
    assert made.headers["cache-control"] == "no-store"
    assert {"token_id", "token"} <= made.json.keys()
    plain = await api.post("/v1/admin/tokens", {"name": "ops", "role": "operator"})
    listed = (await api.get("/v1/admin/tokens")).json["tokens"]
    assert [(t["name"], t["role"], t["namespace"], t["expires_at"]) for t in listed] == [
        ("ci", "submitter", "ns", later),
        ("ops", "operator", None, None),
    ]
    assert not any("token" in entry for entry in listed)
    gone = await api.delete(f"/v1/admin/tokens/{plain.json['token_id']}")
    assert (gone.status, gone.json) == (200, "Deleted")
    again = await api.delete(f"/v1/admin/tokens/{plain.json['token_id']}")
    assert (again.status, again.json["code"], again.json["kind"]) == (404, "not_found", "not_found")
    assert (await api.delete("/v1/admin/tokens/nonsense")).status == 404
    assert len((await api.get("/v1/admin/tokens")).json["tokens"]) == 1


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"role": "reader"}, 422, "name"),
        ({"name": "x"}, 422, "role"),
        ({"name": "x", "role": "wizard"}, 422, "role"),
        ({"name": "x", "role": "reader", "expires_at": -1}, 422, "expires_at"),
        ({"name": "", "role": "reader"}, 400, "name"),
        ({"name": "a\nb", "role": "reader"}, 400, "name"),
        ({"name": "x", "role": "reader", "namespace": "a\x00"}, 400, "namespace"),
    ],
)
async def test_a_token_is_described_well(api: Api, body: Any, status: int, field: str) -> None:
    reply = await api.post("/v1/admin/tokens", body)
    assert (reply.status, reply.json["code"]) == (status, "invalid_input")
    assert field in reply.json["error"]


async def test_a_rotation_answers_for_every_partition(api: Api) -> None:
    first = (await api.store.read(ListKids())).current_kid
    reply = await rotate(api, secret=SECRET.upper())
    counts = api.store.partitions.flow
    assert (reply.status, reply.json) == (
        200,
        {"rotated": counts, "failed": [], "in_progress": [], "new_kid": "k2"},
    )
    kids = await api.store.read(ListKids())
    assert kids.current_kid == "k2"
    ((old, until),) = kids.verifying
    assert old == first
    assert abs(until - api.store.now() - 86_400_000) < 60_000
    ring = (await api.store.dump()).records["keyring"][()]
    assert ring.find("k2").secret_hex == SECRET
    assert (await rotate(api)).json == reply.json


async def test_the_grace_comes_from_the_settings(serve: Serve) -> None:
    api = await serve(settings=Settings(hmac_grace_ms=5_000))
    await rotate(api)
    ((_, until),) = (await api.store.read(ListKids())).verifying
    assert until - api.store.now() <= 5_000


async def test_a_grace_beyond_all_times_ends_with_them(serve: Serve) -> None:
    api = await serve(settings=Settings(hmac_grace_ms=2**64 - 1))
    assert (await rotate(api)).status == 200
    assert (await api.store.read(ListKids())).verifying[0][1] == 2**53 - 1


async def test_a_known_name_keeps_its_secret(api: Api) -> None:
    await rotate(api)
    reply = await rotate(api, secret="cd" * 32)
    assert (reply.status, reply.json["kind"], reply.json["code"]) == (
        409,
        "rotation_conflict",
        "rotation_conflict",
    )
    assert "cd" * 32 not in reply.raw.decode()


@pytest.mark.parametrize(
    ("kid", "secret", "text"),
    [
        ("", SECRET, "new_kid must be non-empty and must not contain ':'"),
        ("a:b", SECRET, "new_kid must be non-empty and must not contain ':'"),
        ("k", "", "new_secret_hex must be a non-empty even-length hex string"),
        ("k", "abc", "new_secret_hex must be a non-empty even-length hex string"),
        ("k", "zz", "new_secret_hex must be a non-empty even-length hex string"),
        ("k", "ab\n", "new_secret_hex must be a non-empty even-length hex string"),
    ],
)
async def test_bad_rotations_are_refused(api: Api, kid: str, secret: str, text: str) -> None:
    reply = await rotate(api, kid, secret)
    assert (reply.status, reply.json["error"]) == (400, text)
    assert reply.json["retryable"] is False


async def test_rotations_need_both_fields(api: Api) -> None:
    assert (await api.post(ROTATE, {"new_kid": "k"})).status == 422
    assert (await rotate(api, kid=None)).status == 422


async def test_one_rotation_at_a_time(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    going = asyncio.Event()
    end = asyncio.Event()
    plain = api.server.apply

    async def slow(command: Any, *more: Any) -> Any:
        if isinstance(command, RotateSecret):
            going.set()
            await end.wait()
        return await plain(command, *more)

    monkeypatch.setattr(api.server, "apply", slow)
    first = asyncio.create_task(rotate(api))
    await going.wait()
    second = await rotate(api, f"k-{new_uuid()}")
    assert second.status == 429
    assert (
        second.json["error"] == "too many concurrent admin_rotate calls (server max: 1); retry with backoff"
    )
    assert second.json["retryable"] is True
    assert second.json["kind"] == second.json["code"] == "resource_exhausted"
    assert "retry-after" in second.headers
    assert (await rotate(api, "")).status == 400
    end.set()
    assert (await first).status == 200
