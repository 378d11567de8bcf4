"""Frames of an attempt, over HTTP."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from flowfabric.server.access.permits import Permits
from support.server import Api
from support.until import listening
from support.work import act, claim, create, path

NOBODY = "{fp:7}:7c9e6679-7425-40de-944b-e07fc1f90ae7"


async def started(api: Api) -> tuple[dict[str, Any], str]:
    execution_id = await create(api)
    return await claim(api), path(execution_id, "attempts", "0", "stream")


async def append(api: Api, task: dict[str, Any], *payloads: str, **fields: Any) -> list[str]:
    frames = [{"frame_type": "token", "payload": payload, **fields} for payload in payloads]
    answer = await act(api, task, "frames", frames=frames)
    return [each["entry_id"] for each in answer["Appended"]]


async def test_frames_are_text(api: Api) -> None:
    task, stream = await started(api)
    assert (await api.get(stream)).json == {"frames": [], "count": 0}
    first, second = await append(api, task, "hi", "there", correlation_id="c")
    reply = await api.get(stream, limit=10)
    (frame, _) = reply.json["frames"]
    assert reply.json["count"] == 2
    assert frame["id"] == first
    assert frame["fields"].pop("ts").isdigit()
    assert frame["fields"] == {
        "frame_type": "token",
        "payload": "hi",
        "encoding": "utf8",
        "source": "worker",
        "mode": "durable",
        "correlation_id": "c",
        "lease_epoch": "1",
    }
    assert [f["id"] for f in (await api.get(stream, **{"from": second})).json["frames"]] == [second]
    assert [f["id"] for f in (await api.get(stream, to=first)).json["frames"]] == [first]


async def test_frames_that_are_not_text_are_base64(api: Api) -> None:
    task, stream = await started(api)
    await act(api, task, "frames", frames=[{"frame_type": "raw", "payload_base64": "AP8="}])
    (frame,) = (await api.get(stream)).json["frames"]
    assert (frame["fields"]["payload"], frame["fields"]["encoding"]) == ("AP8=", "base64")


async def test_a_closed_stream_says_so(api: Api) -> None:
    task, stream = await started(api)
    (last,) = await append(api, task, "hi")
    await act(api, task, "complete")
    for reply in (await api.get(stream), await api.get(f"{stream}/tail", after=last, block_ms=20_000)):
        assert reply.json["closed_reason"] == "attempt_success"
        assert isinstance(reply.json["closed_at"], int)


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ({"limit": 0}, "limit must be >= 1"),
        ({"limit": 1001}, "limit exceeds REST ceiling 1000; paginate via from/to for larger spans"),
        ({"from": ""}, None),
        ({"to": "+"}, None),
        ({"from": "-"}, None),
        ({"limit": "x"}, None),
        ({"to": "x"}, None),
    ],
)
async def test_bad_reads(api: Api, query: dict[str, Any], error: str | None) -> None:
    _, stream = await started(api)
    reply = await api.get(stream, **query)
    assert reply.status == 400, reply
    assert error in {None, reply.json["error"]}


@pytest.mark.parametrize(
    ("query", "error"),
    [
        (
            {"after": "start"},
            "after: XREAD cursor must be a concrete entry id; pass '0-0' to start from the beginning",
        ),
        ({"block_ms": 30_001}, "block_ms exceeds 30000ms ceiling"),
        ({"limit": 1001}, "limit exceeds REST ceiling 1000; paginate via after"),
        ({"limit": 0}, "limit must be >= 1"),
        ({"after": ""}, None),
    ],
)
async def test_bad_tails(api: Api, query: dict[str, Any], error: str | None) -> None:
    _, stream = await started(api)
    reply = await api.get(f"{stream}/tail", **query)
    assert reply.status == 400, reply
    assert error in {None, reply.json["error"]}


async def test_a_bad_attempt_index(api: Api) -> None:
    execution_id = await create(api)
    for bad in ("x", "-1", "4294967296", "1.5"):
        reply = await api.get(path(execution_id, "attempts", bad, "stream"))
        assert reply.status == 400


async def test_a_tail_waits_for_a_frame(api: Api) -> None:
    task, stream = await started(api)
    (first,) = await append(api, task, "one")
    assert (await api.get(f"{stream}/tail")).json["count"] == 1
    assert (await api.get(f"{stream}/tail", after=first, block_ms=20)).json == {"frames": [], "count": 0}
    waiting = asyncio.create_task(api.get(f"{stream}/tail", after=first, block_ms=20_000))
    await listening(api.store, f"execution:{task['execution_id']}")
    await append(api, task, "two")
    (frame,) = (await asyncio.wait_for(waiting, 5)).json["frames"]
    assert frame["fields"]["payload"] == "two"


async def test_the_end_wakes_a_tail(api: Api) -> None:
    task, stream = await started(api)
    (first,) = await append(api, task, "one")
    waiting = asyncio.create_task(api.get(f"{stream}/tail", after=first, block_ms=20_000))
    await listening(api.store, f"execution:{task['execution_id']}")
    await act(api, task, "complete")
    assert (await asyncio.wait_for(waiting, 5)).json["closed_reason"] == "attempt_success"


async def test_reads_and_tails_share_one_pool(api: Api) -> None:
    task, stream = await started(api)
    (first,) = await append(api, task, "one")
    api.server.stream_ops = Permits("stream_ops", 1)
    waiting = asyncio.create_task(api.get(f"{stream}/tail", after=first, block_ms=20_000))
    await listening(api.store, f"execution:{task['execution_id']}")
    reply = await api.get(stream)
    assert reply.status == 429
    assert reply.json["error"] == "too many concurrent stream_ops calls (server max: 1); retry with backoff"
    assert reply.json["retryable"] is True
    assert reply.headers["retry-after"]
    await append(api, task, "two")
    await asyncio.wait_for(waiting, 5)
    assert (await api.get(stream)).status == 200


async def test_a_summary(api: Api) -> None:
    task, stream = await started(api)
    assert (await api.get(f"{stream}/summary")).status == 404
    await append(api, task, '{"done": 1}', mode="summary", patch_kind="json-merge-patch")
    reply = (await api.get(f"{stream}/summary")).json
    assert (reply["document"], reply["version"]) == ({"done": 1}, 1)
    assert reply["last_updated_ms"] > 0


async def test_frames_of_nothing_are_those_of_a_stream_never_written(api: Api) -> None:
    stream = path(NOBODY, "attempts", "0", "stream")
    begin = time.monotonic()
    for where in (stream, f"{stream}/tail", f"{stream}/tail?block_ms=300"):
        reply = await api.get(where)
        assert (reply.status, reply.json) == (200, {"frames": [], "count": 0})
    assert 0.29 <= time.monotonic() - begin < 2


async def test_a_tail_may_be_there_before_its_execution(api: Api) -> None:
    stream = path(NOBODY, "attempts", "0", "stream")
    tail = asyncio.create_task(api.get(f"{stream}/tail", block_ms=10_000))
    await listening(api.store, f"execution:{NOBODY}")
    await create(api, execution_id=NOBODY)
    await append(api, await claim(api), "hi")
    assert (await asyncio.wait_for(tail, 5)).json["count"] == 1


async def test_a_shutdown_ends_the_tails_under_way_and_takes_no_new_ones(api: Api) -> None:
    task, stream = await started(api)
    tail = asyncio.create_task(api.get(f"{stream}/tail", block_ms=30_000))
    end = asyncio.create_task(api.get(path(task["execution_id"], "wait"), timeout_ms=30_000))
    await listening(api.store, f"execution:{task['execution_id']}", 2)
    api.server.stopping.set()
    tailed = await asyncio.wait_for(tail, 5)
    assert (tailed.status, tailed.json) == (200, {"frames": [], "count": 0})
    waited = await asyncio.wait_for(end, 5)
    assert (waited.status, waited.json["terminal"]) == (200, False)
    for where in (stream, f"{stream}/tail"):
        reply = await api.get(where)
        assert (reply.status, reply.json["kind"], reply.headers["retry-after"]) == (503, "unavailable", "1")


async def test_frames_of_little_weight_can_be_left_out(api: Api) -> None:
    task, stream = await started(api)
    await append(api, task, "kept")
    await append(api, task, "live", mode="best_effort", ttl_ms=1_000)
    for where in (stream, f"{stream}/tail"):
        assert (await api.get(where)).json["count"] == 2
        (frame,) = (await api.get(where, visibility="exclude_best_effort")).json["frames"]
        assert frame["fields"]["payload"] == "kept"
        assert (await api.get(where, visibility="odd")).status == 400
