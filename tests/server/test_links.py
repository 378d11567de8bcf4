"""Approval links: who makes them, what they show, and that they act once."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from flowfabric.model.operations.access_secret import RotateSecret
from flowfabric.server.access.links import open_link
from flowfabric.server.settings import Settings
from flowfabric.storage.minting import new_uuid
from flowfabric.wire.access import LONGEST_LINK_MS
from support.server import Api, Reply
from support.serving import Serve
from support.work import act, claim, create, path

HTML = {"Accept": "text/html,application/xhtml+xml"}


async def waiting(api: Api, **fields: Any) -> tuple[str, str]:
    """An execution that waits, and its waitpoint."""
    execution_id = await create(api, execution_kind="<b>deploy</b>")
    suspended = await act(api, await claim(api), "suspend", **({"signals": ["approve"]} | fields))
    return execution_id, suspended["Suspended"]["waitpoint_id"]


async def link(api: Api, execution_id: str, waitpoint_id: str, **fields: Any) -> Reply:
    body = {"signal_name": "approve", "expires_in_ms": 60_000} | fields
    return await api.post(path(execution_id, "waitpoints", waitpoint_id, "link"), body)


async def made(api: Api, **fields: Any) -> tuple[str, str]:
    """An execution that waits, and the path of a link for it."""
    execution_id, waitpoint_id = await waiting(api)
    reply = await link(api, execution_id, waitpoint_id, **fields)
    assert reply.status == 201, reply
    assert reply.headers["cache-control"] == "no-store"
    return execution_id, urlsplit(reply.json["url"]).path


async def state(api: Api, execution_id: str) -> str:
    return str((await api.get(path(execution_id, "state"))).json)


async def test_a_link_shows_first_and_acts_when_it_is_sent(api: Api) -> None:
    execution_id, where = await made(api, source_identity="ann@example.com")
    for _ in range(3):
        shown = await api.call("GET", where, headers=HTML)
        assert shown.status == 200
    assert (await api.call("HEAD", where)).status == 200
    assert await state(api, execution_id) == "suspended"
    page = shown.raw.decode()
    for text in (
        "ann@example.com",
        "approve",
        "&lt;b&gt;deploy&lt;/b&gt;",
        "anonymous",
        '<form method="post">',
    ):
        assert text in page
    used = await api.call("POST", where, headers=HTML)
    assert used.status == 200
    assert "The work goes on" in used.raw.decode()
    assert await state(api, execution_id) == "waiting"
    (signal,) = (await claim(api))["resume_signals"]
    assert (signal["signal_name"], signal["source_identity"]) == ("approve", "ann@example.com")
    for method in ("GET", "POST"):
        again = await api.call(method, where)
        assert (again.status, again.json["code"]) == (410, "gone")


async def test_a_page_needs_nothing_from_elsewhere_and_runs_nothing(api: Api) -> None:
    _, where = await made(api, source_identity="<script>alert(1)</script>", signal_name='"><img src=x>')
    shown = await api.call("GET", where, headers=HTML)
    page = shown.raw.decode()
    assert shown.headers["content-type"] == "text/html; charset=utf-8"
    assert "<script" not in page
    assert "<img" not in page
    assert not re.search(r"(src|href)=", page.replace("&quot;&gt;&lt;img src=", ""))
    policy = shown.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert shown.headers["referrer-policy"] == "no-referrer"
    assert shown.headers["cache-control"] == "no-store"
    refused = await api.call("GET", "/links/nonsense", headers=HTML)
    assert (refused.status, refused.headers["content-type"]) == (404, "text/html; charset=utf-8")


async def test_a_link_acts_once_even_when_more_is_waited_for(api: Api) -> None:
    execution_id, waitpoint_id = await waiting(api, signals=["approve", "approve"], mode="count", count=2)
    first, second = [
        urlsplit((await link(api, execution_id, waitpoint_id)).json["url"]).path for _ in range(2)
    ]
    assert first != second
    assert "waits for more" in (await api.post(first)).raw.decode()
    assert (await api.post(first)).status == 410
    assert await state(api, execution_id) == "suspended"
    assert (await api.post(second)).status == 200
    assert await state(api, execution_id) == "waiting"


async def test_every_changed_character_makes_it_worthless(api: Api) -> None:
    execution_id, where = await made(api, source_identity="ann")
    sealed = where.rsplit("/", 1)[1]
    for place in range(0, len(sealed), 7):
        other = "A" if sealed[place] != "A" else "B"
        changed = sealed[:place] + other + sealed[place + 1 :]
        reply = await api.post(f"/links/{changed}")
        assert reply.status == 404, changed
        assert reply.json["code"] == "not_found"
    last = sealed[:-1] + chr(ord(sealed[-1]) + 1)
    assert (await api.post(f"/links/{last}")).status == 404
    text, signature = sealed.split(".")
    said = json.loads(base64.urlsafe_b64decode(text + "=="))
    for field, value in (
        (3, ["reject"]),
        (4, "bob"),
        (6, said[6] + 1),
        (7, new_uuid()),
        (2, new_uuid()),
        (0, "k9"),
    ):
        forged = [*said[:field], value, *said[field + 1 :]]
        packed = (
            base64.urlsafe_b64encode(json.dumps(forged, separators=(",", ":")).encode()).rstrip(b"=").decode()
        )
        assert (await api.post(f"/links/{packed}.{signature}")).status == 404, field
    assert await state(api, execution_id) == "suspended"


@pytest.mark.parametrize("nonsense", ["x", ".", "a.b", "%C3%BF", "a" * 7_000, "e30.e30", "..", "W10.W10"])
async def test_nonsense_is_no_link(api: Api, nonsense: str) -> None:
    assert (await api.get(f"/links/{nonsense}")).status == 404
    assert (await api.post(f"/links/{nonsense}")).status == 404


async def test_a_link_ends_with_its_time(api: Api) -> None:
    execution_id, where = await made(api, expires_in_ms=1)
    for method in ("GET", "POST"):
        assert (await api.call(method, where)).status == 410
    page = await api.call("GET", where, headers=HTML)
    assert (page.status, "too old" in page.raw.decode()) == (410, True)
    assert await state(api, execution_id) == "suspended"


async def test_a_link_of_ended_work_is_closed(api: Api) -> None:
    execution_id, where = await made(api)
    await api.post(path(execution_id, "cancel"), {"execution_id": execution_id, "reason": "no", "now": 1})
    assert (await api.get(where)).status == 410
    assert (await api.post(where)).status == 410


async def test_a_link_lives_through_a_rotation_as_long_as_its_grace(api: Api) -> None:
    execution_id, where = await made(api)
    await api.store.apply(RotateSecret(new_kid="k2", new_secret_hex="cd" * 32, grace_ms=60_000))
    assert (await api.get(where)).status == 200
    other = await made(api)
    assert (await open_link(api.store, other[1].rsplit("/", 1)[1]))[0].kid == "k2"
    assert (await api.post(where)).status == 200
    assert await state(api, execution_id) == "waiting"
    await api.store.apply(RotateSecret(new_kid="k3", new_secret_hex="ef" * 32, grace_ms=0))
    rotated = api.store.now()
    while api.store.now() <= rotated:  # noqa: ASYNC110 - a grace holds to the end of its last millisecond
        await asyncio.sleep(0)
    assert (await api.get(other[1])).status == 410


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"signal_name": ""}, 400),
        ({"signal_name": None}, 422),
        ({"expires_in_ms": 0}, 422),
        ({"expires_in_ms": "1"}, 422),
        ({"expires_in_ms": LONGEST_LINK_MS + 1}, 422),
        ({"expires_in_ms": 2**53 - 1}, 422),
        ({"source_identity": "x" * 300}, 400),
    ],
)
async def test_a_link_is_described_well(api: Api, fields: dict[str, Any], status: int) -> None:
    execution_id, waitpoint_id = await waiting(api)
    reply = await link(api, execution_id, waitpoint_id, **fields)
    assert (reply.status, reply.json["code"]) == (status, "invalid_input")


async def test_a_link_may_live_for_ten_years(api: Api) -> None:
    _, where = await made(api, expires_in_ms=LONGEST_LINK_MS)
    shown = await api.get(where)
    assert shown.status == 200
    assert b"Valid until" in shown.raw


@pytest.mark.parametrize("host", ["evil.example", "localhost:1", ""])
async def test_without_a_public_address_links_lead_to_where_the_server_listens(
    serve: Serve, host: str
) -> None:
    api = await serve(token="t", api_token="t")
    execution_id, waitpoint_id = await waiting(api)
    reply = await api.call(
        "POST",
        path(execution_id, "waitpoints", waitpoint_id, "link"),
        {"signal_name": "approve", "expires_in_ms": 1_000},
        headers={"Host": host} if host else {},
    )
    assert reply.json["url"].startswith(f"{api.base}/links/")


async def test_an_approval_needs_a_waitpoint(api: Api) -> None:
    execution_id, _ = await waiting(api)
    reply = await api.post(path(execution_id, "waitpoints", new_uuid(), "signal"), {"signal_name": "approve"})
    assert (reply.status, reply.json["kind"]) == (404, "waitpoint_not_found")
    assert await state(api, execution_id) == "suspended"


async def test_a_link_needs_something_open(api: Api) -> None:
    execution_id, waitpoint_id = await waiting(api)
    missing = await link(api, execution_id, new_uuid())
    assert (missing.status, missing.json["code"]) == (404, "waitpoint_not_found")
    assert (await link(api, execution_id, "nonsense")).status == 400
    unknown = await link(api, "{fp:1}:00000000-0000-4000-8000-000000000001", waitpoint_id)
    assert (unknown.status, unknown.json["code"]) == (404, "execution_not_found")
    await api.post(path(execution_id, "resume"), {})
    closed = await link(api, execution_id, waitpoint_id)
    assert (closed.status, closed.json["code"]) == (409, "waitpoint_closed")


async def test_links_are_made_under_the_public_address_and_used_without_a_token(serve: Serve) -> None:
    settings = Settings(api_token="t", public_url="https://ff.example/base/")
    api = await serve(token="t", settings=settings)
    execution_id, waitpoint_id = await waiting(api)
    url = (await link(api, execution_id, waitpoint_id)).json["url"]
    assert url.startswith("https://ff.example/base/links/")
    stranger = {"Authorization": ""}
    where = "/links/" + url.rsplit("/", 1)[1]
    assert (await api.call("GET", where, headers=stranger)).status == 200
    assert (await api.call("POST", where, headers=stranger)).status == 200
    assert await state(api, execution_id) == "waiting"


async def test_links_are_made_by_operators_of_the_namespace(serve: Serve) -> None:
    api = await serve(token="t", api_token="t")
    execution_id, waitpoint_id = await waiting(api)
    for role, namespace, status in (
        ("worker", None, 403),
        ("operator", "other", 404),
        ("operator", "demo", 201),
    ):
        token = await api.post("/v1/admin/tokens", {"name": "x", "role": role, "namespace": namespace})
        reply = await api.call(
            "POST",
            path(execution_id, "waitpoints", waitpoint_id, "link"),
            {"signal_name": "approve", "expires_in_ms": 1_000},
            headers={"Authorization": f"Bearer {token.json['token']}"},
        )
        assert reply.status == status


FORM = {**HTML, "Content-Type": "application/x-www-form-urlencoded"}
BOTH = ("approve", "reject")


async def answer(api: Api, where: str, **fields: str) -> Reply:
    """Send the form of the page, as a browser does."""
    return await api.call("POST", where, data=urlencode(fields).encode(), headers=FORM)


async def offered(api: Api, **fields: Any) -> tuple[str, str]:
    """An execution that waits for one of two signals, and the path of a link that offers both."""
    execution_id, waitpoint_id = await waiting(api, signals=BOTH, **fields)
    body = {"signal_names": BOTH, "expires_in_ms": 60_000}
    made = await api.post(path(execution_id, "waitpoints", waitpoint_id, "link"), body)
    assert made.status == 201, made
    return execution_id, urlsplit(made.json["url"]).path


async def test_a_page_shows_what_is_asked_and_offers_every_signal_of_the_link(api: Api) -> None:
    details = {"amount": 12.5, "<to>": "a & b", "lines": [1, 2]}
    _, where = await offered(api, message="Pay <now>?\nReally?", details=details)
    page = (await api.call("GET", where, headers=HTML)).raw.decode()
    for text in (
        "Pay &lt;now&gt;?\nReally?",
        "12.5",
        "&lt;to&gt;",
        "a &amp; b",
        "[1,2]",
        "&lt;b&gt;deploy&lt;/b&gt;",
        'value="approve"',
        'value="reject"',
        '<textarea name="comment"',
        '<input name="name"',
        "Asked",
    ):
        assert text in page, text
    assert "<now>" not in page


async def test_a_visitor_chooses_comments_and_says_who_they_are(api: Api) -> None:
    execution_id, where = await offered(api)
    used = await answer(api, where, signal="reject", comment="too dear", name="Bea")
    assert used.status == 200, used
    assert await state(api, execution_id) == "waiting"
    (signal,) = (await claim(api))["resume_signals"]
    assert (signal["signal_name"], signal["source_identity"]) == ("reject", "Bea")
    assert json.loads(signal["payload"]) == {"comment": "too dear"}
    history = (await api.get(path(execution_id, "history"))).json["events"]
    assert [line["actor"] for line in history if line["event"] == "signal"] == ["Bea"]


async def test_a_named_addressee_answers_in_no_other_name(api: Api) -> None:
    _, where = await made(api, source_identity="ann")
    assert '<input name="name"' not in (await api.call("GET", where, headers=HTML)).raw.decode()
    await answer(api, where, name="mallory")
    (signal,) = (await claim(api))["resume_signals"]
    assert signal["source_identity"] == "ann"


async def test_a_link_with_several_signals_acts_once_in_all(api: Api) -> None:
    execution_id, waitpoint_id = await waiting(api, signals=BOTH, mode="all")
    body = {"signal_names": BOTH, "expires_in_ms": 60_000}
    made = await api.post(path(execution_id, "waitpoints", waitpoint_id, "link"), body)
    where = urlsplit(made.json["url"]).path
    assert (await answer(api, where, signal="approve")).status == 200
    assert (await answer(api, where, signal="reject")).status == 410
    assert await state(api, execution_id) == "suspended"


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, 400),
        ({"signal": "other"}, 400),
        ({"signal": ""}, 400),
        ({"signal": "approve", "comment": "x" * 2_001}, 400),
        ({"signal": "approve", "name": "x" * 129}, 400),
        ({"signal": "approve", "name": "bob\r\nX\x1b[31m"}, 400),
        ({"signal": "approve", "comment": "\x07"}, 400),
    ],
)
async def test_an_answer_that_the_link_does_not_offer_is_refused(
    api: Api, fields: dict[str, str], status: int
) -> None:
    execution_id, where = await offered(api)
    assert (await answer(api, where, **fields)).status == status
    assert await state(api, execution_id) == "suspended"
    wrong = await api.call("POST", where, data=b"{}", headers={"Content-Type": "application/json"})
    assert wrong.status == 415


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"signal_name": "a", "signal_names": ["a"], "expires_in_ms": 1}, 400),
        ({"expires_in_ms": 1}, 422),
        ({"signal_names": [], "expires_in_ms": 1}, 422),
        ({"signal_names": ["a"] * 9, "expires_in_ms": 1}, 422),
        ({"signal_name": "a"}, 422),
        ({"signal_name": "a", "expires_in_ms": 1, "expires_at": 1}, 400),
        ({"signal_name": "a", "expires_at": 2**53 - 1}, 422),
        ({"signal_names": ["a", ""], "expires_in_ms": 1}, 400),
        ({"signal_name": "a", "expires_in_ms": 1, "link_id": "x"}, 422),
    ],
)
async def test_a_request_for_a_link_says_what_it_means(api: Api, fields: dict[str, Any], status: int) -> None:
    execution_id, waitpoint_id = await waiting(api)
    reply = await api.post(path(execution_id, "waitpoints", waitpoint_id, "link"), fields)
    assert (reply.status, reply.json["code"]) == (status, "invalid_input")


async def test_the_same_request_gives_the_same_link_also_when_the_wait_is_over(api: Api) -> None:
    execution_id, waitpoint_id = await waiting(api)
    same = {"signal_name": "approve", "expires_at": api.store.now() + 60_000, "link_id": new_uuid()}
    where = path(execution_id, "waitpoints", waitpoint_id, "link")
    first = await api.post(where, same)
    assert (await api.post(where, same)).json == first.json
    assert (await api.post(urlsplit(first.json["url"]).path)).status == 200
    assert (await api.post(where, same)).json == first.json
    assert (await api.post(urlsplit(first.json["url"]).path)).status == 410


async def test_a_link_finds_the_wait_of_the_attempt_after_an_interruption(api: Api) -> None:
    """The link was sent out, then the worker died before it waited; the next attempt waits elsewhere."""
    execution_id = await create(api)
    task = await claim(api)
    ahead = await act(api, task, "waitpoints", waitpoint_key="approval", expires_in_ms=600_000)
    where = urlsplit((await link(api, execution_id, ahead["Created"]["waitpoint_id"])).json["url"]).path
    assert (await api.call("GET", where)).status == 200
    await act(api, task, "release")
    for again in (False, True):  # before the next attempt, and before that has a waitpoint
        if again:
            task = await claim(api)
            assert task["attempt_index"] == 1
        not_yet = await api.call("POST", where)
        assert (not_yet.status, not_yet.json["code"]) == (409, "not_ready")
    again = await act(api, task, "waitpoints", waitpoint_key="approval", expires_in_ms=600_000)
    await act(api, task, "suspend", signals=["approve"], use_waitpoint_id=again["Created"]["waitpoint_id"])
    assert (await api.call("GET", where)).status == 200
    assert (await api.call("POST", where)).status == 200
    assert await state(api, execution_id) == "waiting"
