"""The audit log and the lines of the log."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from flowfabric import logs
from flowfabric.model.errors import InvalidInput
from support.server import Api
from support.serving import Serve
from support.work import act, claim, create, path

SECRET = "ab" * 32


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """The log of this process as JSON, only errors in general; afterwards as it was."""
    root, audit = logging.getLogger(), logging.getLogger(logs.AUDIT)
    before = (root.handlers[:], root.level, audit.handlers[:], audit.level, audit.propagate)
    stream = io.StringIO()
    logs.configure("json", "error", stream)
    yield stream
    root.handlers[:], audit.handlers[:], audit.propagate = before[0], before[2], before[4]
    root.setLevel(before[1])
    audit.setLevel(before[3])


def read(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


async def test_operators_and_administrators_are_written_down(api: Api, lines: io.StringIO) -> None:
    execution_id = await create(api)
    await api.get(path(execution_id))
    assert read(lines) == []
    reply = await api.post(path(execution_id, "pause"), {"reason": "private words"})
    (line,) = read(lines)
    assert line["logger"] == "flowfabric.audit"
    assert line["who"] == "anonymous"
    assert line["what"] == "POST /v1/executions/{id}/pause"
    assert line["on"] == {"id": execution_id}
    assert (line["outcome"], line["status"]) == ("done", 200)
    assert line["request_id"] == reply.headers["x-request-id"]
    assert line["execution_id"] == execution_id
    assert "private words" not in lines.getvalue()


async def test_a_cancel_is_written_down_when_it_is_an_operators(api: Api, lines: io.StringIO) -> None:
    await create(api)
    await act(api, await claim(api), "cancel", reason="by its holder")
    assert read(lines) == []
    other = await create(api)
    await api.post(path(other, "cancel"), {"execution_id": other, "reason": "no", "now": 1})
    assert [line["what"] for line in read(lines)] == ["POST /v1/executions/{id}/cancel"]


async def test_refusals_are_written_down_with_who_was_refused(serve: Serve, lines: io.StringIO) -> None:
    api = await serve(token="t", api_token="t")
    made = (await api.post("/v1/admin/tokens", {"name": "the reader", "role": "reader"})).json
    bearer = {"Authorization": f"Bearer {made['token']}"}
    await api.call("GET", "/v1/admin/tokens", headers=bearer)
    await api.call("GET", "/v1/admin/tokens", headers={"Authorization": "Bearer wrong"})
    refused = [line for line in read(lines) if line.get("outcome") == "refused"]
    assert [(line["who"], line["status"], line["code"]) for line in refused] == [
        ("the reader", 403, "forbidden"),
        ("unknown", 401, "unauthorized"),
    ]


async def test_secrets_stay_out(serve: Serve, lines: io.StringIO) -> None:
    api = await serve(token="the-administrator", api_token="the-administrator")
    made = (await api.post("/v1/admin/tokens", {"name": "ci", "role": "admin"})).json
    await api.post("/v1/admin/rotate-waitpoint-secret", {"new_kid": "k2", "new_secret_hex": SECRET})
    await api.post("/v1/admin/rotate-waitpoint-secret", {"new_kid": "k2", "new_secret_hex": "cd" * 32})
    execution_id = await create(api)
    wait = (await act(api, await claim(api), "suspend"))["Suspended"]
    await api.get(path(execution_id, "waitpoints", wait["waitpoint_id"], "token"))
    link = await api.post(
        path(execution_id, "waitpoints", wait["waitpoint_id"], "link"),
        {"signal_name": "go", "expires_in_ms": 9_000, "source_identity": "ann"},
    )
    sealed = link.json["url"].rsplit("/", 1)[1]
    await api.post(f"/links/{sealed}")
    text = lines.getvalue()
    for secret in (made["token"], "the-administrator", SECRET, "cd" * 32, wait["waitpoint_token"], sealed):
        assert secret not in text
    events = [line["message"] for line in read(lines)]
    for event in (
        "token_created",
        "waitpoint_hmac_rotation_complete",
        "waitpoint_hmac_rotation_failed",
        "link_used",
    ):
        assert event in events
    rotation = next(line for line in read(lines) if line["message"] == "waitpoint_hmac_rotation_complete")
    partitions = api.store.partitions.flow
    assert (
        rotation["new_kid"],
        rotation["rotated"],
        rotation["total_partitions"],
        rotation["failed_count"],
    ) == (
        "k2",
        partitions,
        partitions,
        0,
    )
    used = next(line for line in read(lines) if line["message"] == "link_used")
    assert (used["who"], used["signal_name"], used["execution_id"]) == ("ann", "go", execution_id)


def record(text: str, **extra: Any) -> logging.LogRecord:
    made = logging.LogRecord("flowfabric.x", logging.WARNING, "f.py", 1, text, (), None)
    made.__dict__.update(extra)
    return made


def test_a_line_of_text_is_one_line() -> None:
    line = logs.TextLines().format(record("a\nforged line", who="x y", empty=""))
    assert "\n" not in line
    assert line.endswith('flowfabric.x: a\\nforged line who="x y"')


def test_a_line_of_json_holds_everything() -> None:
    made = record("text", count=3)
    made.exc_info = (ValueError, ValueError("inside"), None)
    line = json.loads(logs.JsonLines().format(made))
    assert (line["level"], line["logger"], line["message"], line["count"]) == (
        "warning",
        "flowfabric.x",
        "text",
        3,
    )
    assert "ValueError: inside" in line["exception"]
    assert line["at"].endswith("Z")
    assert "inside" in logs.TextLines().format(made)


@pytest.mark.parametrize(("form", "level"), [("xml", "info"), ("json", "loud")])
def test_settings_of_the_log_are_checked(form: str, level: str) -> None:
    with pytest.raises(InvalidInput):
        logs.configure(form, level)
