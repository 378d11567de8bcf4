"""Who is let in: roles, namespaces, expiry, and what is kept of a token."""

from __future__ import annotations

import hashlib
import re
import time
from types import SimpleNamespace
from typing import Any

import pytest

from flowfabric.model.operations.access import CreateToken
from flowfabric.server.access import auth
from flowfabric.server.settings import Settings
from flowfabric.storage.minting import new_uuid
from flowfabric.wire.rights import GRANTS, Right, Role
from support.server import Api, Reply
from support.serving import Serve
from support.work import create, path

ADMIN = "the-administrator"
UNKNOWN = "{fp:1}:00000000-0000-4000-8000-000000000001"
SAMPLES: dict[Right, tuple[str, str, Any]] = {
    Right.NOTHING: ("GET", "/livez", None),
    Right.READ: ("GET", path(UNKNOWN, "history"), None),
    Right.SUBMIT: ("POST", "/v1/submit", {"kind": "k"}),
    Right.WORK: ("POST", "/v1/workers/w/tasks", {"worker_instance_id": "i", "lanes": ["default"]}),
    Right.SIGNAL: ("POST", path(UNKNOWN, "signal"), {}),
    Right.OPERATE: ("POST", path(UNKNOWN, "pause"), {}),
    Right.ADMIN: ("GET", "/v1/admin/tokens", None),
}
EXEMPT = ("/healthz", "/livez", "/readyz", "/metrics")


@pytest.fixture
async def door(serve: Serve) -> Api:
    """A server that wants a token; its client has the administrator's."""
    return await serve(token=ADMIN, api_token=ADMIN)


async def make(api: Api, role: str, **more: Any) -> dict[str, Any]:
    reply = await api.post("/v1/admin/tokens", {"name": f"a {role}", "role": role, **more})
    assert reply.status == 201, reply
    return dict(reply.json)


async def ask(api: Api, token: str, method: str, where: str, body: Any = None) -> Reply:
    return await api.call(method, where, body, headers={"Authorization": f"Bearer {token}"})


@pytest.mark.parametrize("role", Role)
async def test_a_role_opens_what_it_says_and_nothing_else(door: Api, role: Role) -> None:
    token = (await make(door, role.value))["token"]
    for need, (method, where, body) in SAMPLES.items():
        reply = await ask(door, token, method, where, body)
        may = need is Right.NOTHING or need in GRANTS[role]
        assert (reply.status == 403) is not may, (role, need, reply)
        assert reply.status != 401
        if not may:
            assert (reply.json["code"], reply.json["kind"]) == ("forbidden", "forbidden")
            assert reply.json["request_id"] == reply.headers["x-request-id"]


@pytest.mark.parametrize(
    "header",
    [
        "",
        "the-administrator",
        "bearer the-administrator",
        "Bearer  the-administrator",
        "Bearer wrong",
        "Bearer ",
        "Basic dXNlcjpwYXNz",
        "Bearer \xe4",
    ],
)
async def test_without_the_token_nobody_is_let_in(serve: Serve, header: str) -> None:
    api = await serve(api_token=ADMIN)
    headers = {"Authorization": header} if header else {}
    for where in ("/v1/lanes", "/v1/no/such/route", "/nowhere"):
        reply = await api.call("GET", where, headers=headers)
        assert reply.status == 401
        assert reply.json["error"] == "missing or invalid Authorization header"
        assert "www-authenticate" not in reply.headers
    assert (await api.call("POST", "/v1/submit", data=b"x" * 3_000_000, headers=headers)).status in {401, 413}


async def test_what_is_open_stays_open(serve: Serve) -> None:
    api = await serve(api_token=ADMIN)
    for where in EXEMPT:
        assert (await api.get(where)).status == 200
    assert (await api.post("/healthz")).status == 405
    assert (await api.get("/links/nonsense")).status == 404


async def test_a_token_is_kept_as_its_digest(door: Api) -> None:
    made = await make(door, "worker")
    assert re.fullmatch(r"ff_[A-Za-z0-9_-]{43}", made["token"])
    held = (await door.store.dump()).records["token"]
    (record,) = held.values()
    assert record.digest == hashlib.sha256(made["token"].encode()).hexdigest()
    assert made["token"] not in repr(held)
    listed = (await door.get("/v1/admin/tokens")).raw.decode()
    assert made["token"] not in listed
    assert record.digest not in listed


async def test_a_token_ends_with_its_time(door: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    expires_at = door.store.now() + 60_000
    made = await make(door, "reader", expires_at=expires_at)
    assert (await ask(door, made["token"], "GET", "/v1/lanes")).status == 200
    monkeypatch.setattr(door.store, "_clock", lambda: expires_at)
    assert (await ask(door, made["token"], "GET", "/v1/lanes")).status == 401
    past = await make(door, "reader", expires_at=1)
    assert (await ask(door, past["token"], "GET", "/v1/lanes")).status == 401


async def test_a_deleted_token_is_refused_at_once_here_and_soon_elsewhere(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await serve(token=ADMIN, api_token=ADMIN)
    other = await serve(token=ADMIN, api_token=ADMIN, store=one.store)
    made = await make(one, "reader")
    assert (await ask(one, made["token"], "GET", "/v1/lanes")).status == 200
    assert (await ask(other, made["token"], "GET", "/v1/lanes")).status == 200
    reply = await one.delete(f"/v1/admin/tokens/{made['token_id']}")
    assert (reply.status, reply.json) == (200, "Deleted")
    assert (await ask(one, made["token"], "GET", "/v1/lanes")).status == 401
    later = time.monotonic() + auth.CACHE_SECONDS
    monkeypatch.setattr(auth, "time", SimpleNamespace(monotonic=lambda: later))
    assert (await ask(other, made["token"], "GET", "/v1/lanes")).status == 401


async def test_wrong_tokens_do_not_reach_the_store_each_time(
    door: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0
    plain = door.server.access._refresh

    async def counted() -> None:
        nonlocal reads
        reads += 1
        await plain()

    monkeypatch.setattr(door.server.access, "_refresh", counted)
    for _ in range(20):
        assert (await ask(door, "wrong", "GET", "/v1/lanes")).status == 401
    assert reads <= 2


async def test_a_bound_token_sees_its_namespace(door: Api) -> None:
    mine = await create(door, namespace="mine")
    theirs = await create(door, namespace="theirs")
    token = (await make(door, "operator", namespace="mine"))["token"]
    assert (await ask(door, token, "GET", path(mine))).status == 200
    assert (await ask(door, token, "GET", path(theirs))).status == 404
    assert (await ask(door, token, "POST", path(theirs, "pause"), {})).status == 404
    refused = await ask(door, token, "POST", "/v1/submit", {"kind": "k", "namespace": "theirs"})
    assert (refused.status, refused.json["code"]) == (403, "forbidden")
    made = await ask(door, token, "POST", "/v1/submit", {"kind": "k"})
    run = (await door.store.dump()).records["execution"][made.json["execution_id"],]
    assert run.namespace == "mine"


async def test_a_bound_administrator_administers_nothing_for_all(door: Api) -> None:
    token = (await make(door, "admin", namespace="mine"))["token"]
    for method, where, body in (
        ("POST", "/v1/admin/tokens", {"name": "x", "role": "admin"}),
        ("GET", "/v1/admin/tokens", None),
        ("DELETE", f"/v1/admin/tokens/{new_uuid()}", None),
        ("POST", "/v1/admin/rotate-waitpoint-secret", {"new_kid": "k9", "new_secret_hex": "ab" * 32}),
    ):
        assert (await ask(door, token, method, where, body)).status == 403


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:9090", 200),
        ("127.0.0.1", 200),
        ("127.9.9.9:1", 200),
        ("[::1]:9090", 200),
        ("LOCALHOST.", 200),
        ("app.localhost", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("10.0.0.1", 403),
        ("127.0.0.1.nip.io", 403),
        ("[::2]", 403),
    ],
)
async def test_a_server_without_a_token_answers_to_names_of_this_machine(
    api: Api, host: str, status: int
) -> None:
    reply = await api.call("GET", "/v1/lanes", headers={"Host": host})
    assert reply.status == status
    if status == 403:
        assert "FF_API_TOKEN" in reply.json["error"]


async def test_other_names_are_served_when_the_settings_say_so(serve: Serve) -> None:
    said = await serve(settings=Settings(allow_unauthenticated=True))
    assert (await said.call("GET", "/v1/lanes", headers={"Host": "evil.example"})).status == 200
    public = await serve(settings=Settings(public_url="https://ff.example/base"))
    assert (await public.call("GET", "/v1/lanes", headers={"Host": "ff.example"})).status == 200
    assert (await public.call("GET", "/v1/lanes", headers={"Host": "evil.example"})).status == 403
    token = await serve(token=ADMIN, api_token=ADMIN)
    assert (await token.call("GET", "/v1/lanes", headers={"Host": "ff.example"})).status == 200


async def test_a_role_that_a_newer_version_made_opens_nothing(door: Api) -> None:
    digest = auth.digest(b"new")
    await door.store.apply(CreateToken(token_id=new_uuid(), name="n", role="wizard", digest=digest))
    assert (await ask(door, "new", "GET", "/v1/lanes")).status == 401
